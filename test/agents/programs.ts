import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Gateway } from "../support/gateway.ts";
import { clientSettings, type ClientSettings } from "../support/guides.ts";

export const key = "sk-client-of-these-programs";

/** Where a program runs: `home` is empty before, `task` holds the files of the task. */
export interface Folders {
  readonly home: string;
  readonly task: string;
}

export interface Started {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** A program that works with tools. */
export interface Program {
  readonly name: string;
  /** What is there once it is installed. */
  readonly file: string;
  /** The ways in which it is run: a model, whose name may change what the program does, or a client and a model. */
  readonly ways: readonly string[];
  /** Which of the thoughts before a call it returns, in each of its ways. A plan of Cohere has no signature to be known by. */
  readonly returnsThoughts: "all" | "signed" | "none";
  /** Whether it asks again after a stream that broke off while it called a tool. */
  readonly asksAgain: boolean;
  /** A program that may take more than a minute for a task is left to `npm run test:agents`. */
  readonly isQuick: boolean;
  start(folders: Folders, gateway: Gateway, way: string, prompt: string): Promise<Started>;
  /** Its last answer, in what it printed. */
  said(stdout: string): string;
}

const installed = (path: string): string => join(import.meta.dir, "node_modules", path);

/** The name of the model at the gateway. */
export function modelOf(way: string): string {
  return way.slice(way.indexOf("/") + 1);
}

/** Each program is set up as docs/guides/clients.md says. What is added keeps it quiet, and lets it work without being asked. */
function documented(client: string, gateway: Gateway, model: string): ClientSettings {
  return clientSettings(client, { url: gateway.url, key, model });
}

/** The file that the page shows, made into what the test needs. */
async function writeSettings(home: string, { files }: ClientSettings, path: string, make: (text: string) => string): Promise<void> {
  const file = join(home, path.slice("~/".length));
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, make(files[path] ?? ""));
}

const claudeCode: Program = {
  name: "Claude Code",
  file: installed("@anthropic-ai/claude-code/cli-wrapper.cjs"),
  ways: ["scripted", "claude-sonnet-4-5"],
  returnsThoughts: "all",
  asksAgain: true,
  isQuick: true,
  start: async (_folders, gateway, model, prompt) => ({
    command: ["node", claudeCode.file, "-p", prompt, "--output-format", "json", "--dangerously-skip-permissions"],
    env: {
      ...documented("Claude Code", gateway, model).env,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_ERROR_REPORTING: "1",
      // It refuses to skip permissions for root otherwise, and tests may run as root in a container.
      IS_SANDBOX: "1",
    },
  }),
  said: (stdout) => (JSON.parse(stdout) as { readonly result: string }).result,
};

const codex: Program = {
  name: "Codex",
  file: installed("@openai/codex/bin/codex.js"),
  // It declares other tools for models that it does not know, with a patch tool that takes text, and with one that takes a script.
  ways: ["scripted", "gpt-5.5", "gpt-6-sol"],
  returnsThoughts: "all",
  asksAgain: true,
  isQuick: true,
  start: async ({ home }, gateway, model, prompt) => {
    const settings = documented("Codex", gateway, model);
    const first = ['approval_policy = "never"', 'sandbox_mode = "danger-full-access"', "check_for_update_on_startup = false"];
    await writeSettings(home, settings, "~/.codex/config.toml", (text) => [...first, text, "[analytics]", "enabled = false"].join("\n"));
    return {
      command: ["node", codex.file, "exec", "--skip-git-repo-check", prompt],
      env: { CODEX_HOME: join(home, ".codex"), ...settings.env },
    };
  },
  said: (stdout) => stdout.trim(),
};

const geminiCli: Program = {
  name: "Gemini CLI",
  file: installed("@google/gemini-cli/bundle/gemini.js"),
  ways: ["scripted", "gemini-2.5-pro"],
  // It drops thoughts, and keeps the signatures of calls.
  returnsThoughts: "signed",
  asksAgain: false,
  isQuick: true,
  start: async ({ home }, gateway, model, prompt) => {
    const settings = documented("Gemini CLI", gateway, model);
    await writeSettings(home, settings, "~/.gemini/settings.json", (text) => {
      const { security } = JSON.parse(text) as { readonly security: Readonly<Record<string, unknown>> };
      return JSON.stringify({
        security: { ...security, folderTrust: { enabled: false } },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
      });
    });
    return {
      command: ["node", geminiCli.file, "-m", model, "-p", prompt, "--approval-mode", "yolo", "-o", "json"],
      env: { ...settings.env, GEMINI_CLI_NO_RELAUNCH: "true" },
    };
  },
  said: (stdout) => (JSON.parse(stdout) as { readonly response: string }).response,
};

/** The other clients of models that come with opencode, and where each begins its paths. */
const clients = {
  responses: { npm: "@ai-sdk/openai", base: "/v1" },
  messages: { npm: "@ai-sdk/anthropic", base: "/v1" },
  gemini: { npm: "@ai-sdk/google", base: "/v1beta" },
};

const opencode: Program = {
  name: "opencode",
  file: installed(`opencode-${process.platform}-${process.arch}/bin/opencode`),
  ways: ["sluice", ...Object.keys(clients)].map((client) => `${client}/scripted`),
  returnsThoughts: "none",
  asksAgain: false,
  isQuick: false,
  start: async ({ home }, gateway, way, prompt) => {
    const settings = documented("opencode", gateway, modelOf(way));
    await writeSettings(home, settings, "~/.config/opencode/opencode.json", (text) => {
      const shown = JSON.parse(text) as { readonly provider: { readonly sluice: { readonly options: object } } };
      const { sluice } = shown.provider;
      const others = Object.entries(clients).map(([name, { npm, base }]) => [
        name,
        { ...sluice, npm, name, options: { ...sluice.options, baseURL: gateway.url + base } },
      ]);
      const provider = { sluice, ...(Object.fromEntries(others) as object) };
      return JSON.stringify({ ...shown, provider, model: way, small_model: way, share: "disabled", autoupdate: false });
    });
    return {
      command: [opencode.file, "run", "--model", way, "--format", "json", prompt],
      env: {
        ...settings.env,
        OPENCODE_DISABLE_AUTOUPDATE: "true",
        OPENCODE_DISABLE_MODELS_FETCH: "true",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "true",
      },
    };
  },
  said: (stdout) =>
    stdout
      .split("\n")
      .flatMap((line) => {
        if (!line.startsWith("{")) return [];
        const { type, part } = JSON.parse(line) as { readonly type: string; readonly part?: { readonly text?: string } };
        return type === "text" ? [part?.text ?? ""] : [];
      })
      .at(-1) ?? "",
};

export const programs: readonly Program[] = [claudeCode, codex, geminiCli, opencode];
