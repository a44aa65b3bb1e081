import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Gateway } from "../support/gateway.ts";

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
      ANTHROPIC_BASE_URL: gateway.url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
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
    await mkdir(join(home, ".codex"));
    const settings = [
      `model = "${model}"`,
      'model_provider = "sluice"',
      'approval_policy = "never"',
      'sandbox_mode = "danger-full-access"',
      "check_for_update_on_startup = false",
      "[analytics]",
      "enabled = false",
      "[model_providers.sluice]",
      'name = "Sluice"',
      `base_url = "${gateway.url}/v1"`,
      'wire_api = "responses"',
      'env_key = "SLUICE_KEY"',
    ];
    await writeFile(join(home, ".codex/config.toml"), settings.join("\n"));
    return {
      command: ["node", codex.file, "exec", "--skip-git-repo-check", prompt],
      env: { CODEX_HOME: join(home, ".codex"), SLUICE_KEY: key },
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
    await mkdir(join(home, ".gemini"));
    const settings = {
      security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
      general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
    };
    await writeFile(join(home, ".gemini/settings.json"), JSON.stringify(settings));
    return {
      command: ["node", geminiCli.file, "-m", model, "-p", prompt, "--approval-mode", "yolo", "-o", "json"],
      env: { GOOGLE_GEMINI_BASE_URL: gateway.url, GEMINI_API_KEY: key, GEMINI_CLI_NO_RELAUNCH: "true" },
    };
  },
  said: (stdout) => (JSON.parse(stdout) as { readonly response: string }).response,
};

/** The clients of models that come with opencode, and where each begins its paths. */
const clients = {
  chat: { npm: "@ai-sdk/openai-compatible", base: "/v1" },
  responses: { npm: "@ai-sdk/openai", base: "/v1" },
  messages: { npm: "@ai-sdk/anthropic", base: "/v1" },
  gemini: { npm: "@ai-sdk/google", base: "/v1beta" },
};

const opencode: Program = {
  name: "opencode",
  file: installed(`opencode-${process.platform}-${process.arch}/bin/opencode`),
  ways: Object.keys(clients).map((client) => `${client}/scripted`),
  returnsThoughts: "none",
  asksAgain: false,
  isQuick: false,
  start: async (_folders, gateway, way, prompt) => {
    const models = { [modelOf(way)]: { limit: { context: 200_000, output: 8_000 } } };
    const provider = Object.fromEntries(
      Object.entries(clients).map(([name, { npm, base }]) => [
        name,
        { npm, name, options: { baseURL: gateway.url + base, apiKey: key }, models },
      ]),
    );
    const config = { provider, model: way, small_model: way, share: "disabled", autoupdate: false };
    return {
      command: [opencode.file, "run", "--model", way, "--format", "json", prompt],
      env: {
        OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
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
