import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { FencedBlock } from "../../scripts/site/fences.ts";
import { chatCode, speechCode, transcriptionCode, type RequestCode } from "../../src/console/pages/playground/code.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { blocksOf, pageText, withShown } from "../support/guides.ts";
import { product } from "../support/product.ts";
import { foundOrSkipped } from "../support/test-tools.ts";
import {
  cursorAgentRequest,
  cursorRequests,
  cursorResponsesRequest,
  openWebUiRequests,
  type RecordedRequest,
} from "../support/recorded-clients.ts";

/**
 * Every block of the guides is run, in order, with the address and the key of one gateway in the place of those that the pages show. What a
 * page says is printed must be printed, and a file that a command writes must be the one that the page shows. Programs that a page
 * starts and that are not here (`claude`, `docker`) are stood in for by a script that notes how it was called.
 */
setDefaultTimeout(120_000);

const root = resolve(import.meta.dir, "../..");
const key = "sk-client-of-the-guides";
const folder = mkdtempSync(join(tmpdir(), "sluice-guides-"));
const programs = join(folder, "programs");
const calls = join(folder, "calls.txt");
const shown: { url: string; adminUrl: string; readonly key: string; readonly model: string } = {
  url: "",
  adminUrl: "",
  key,
  model: "your-model",
};
let upstream: Chaos;
let gateway: Gateway;

beforeAll(async () => {
  upstream = await startChaos({ models: ["your-model"] });
  gateway = await startGateway({
    config: {
      admin: "127.0.0.1:0",
      keys: [{ name: "guides", key }],
      channels: [{ name: "main", base_url: upstream.url, api_key: "sk-of-the-upstream", models: ["your-model"] }],
    },
  });
  Object.assign(shown, { url: gateway.url, adminUrl: gateway.adminUrl });
  mkdirSync(programs);
  program("sluice", `exec sh ${product} "$@"`);
  program("curl", `exec ${Bun.which("curl") ?? "false"} --fail -sS "$@"`);
  for (const name of ["npm", "claude", "codex", "gemini", "opencode", "docker"]) {
    program(name, `{ echo "called: $(basename "$0") $*"; env; } >> ${calls}`);
  }
  if (Bun.which("openssl") === null) program("openssl", "echo 0123456789abcdef0123456789abcdef0123456789abcdef");
});

afterAll(async () => {
  await gateway.kill();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

function program(name: string, line: string): void {
  writeFileSync(join(programs, name), `#!/bin/sh\n${line}\n`);
  chmodSync(join(programs, name), 0o755);
}

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function run(command: readonly string[], cwd: string, env: Readonly<Record<string, string>>): Promise<Ran> {
  const child = Bun.spawn([...command], { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return { code, out, err };
}

/** A page as its reader works through it: one folder, one home, and a shell that remembers what was exported. */
class Reader {
  readonly #home = mkdtempSync(join(folder, "home-"));
  readonly #folder: () => string;
  /** What the last commands printed. */
  #printed = "";

  constructor(where: () => string) {
    this.#folder = where;
  }

  async read({ language, title, text }: FencedBlock): Promise<void> {
    const given = withShown(text, shown);
    if (language === "sh") return this.#shell(given);
    if (language === "text") return this.#expectPrinted(given);
    if (language === "js") return this.#answers([process.execPath, this.#write(title, given, packagesOf(given) ?? "")]);
    if (language === "python") return this.#answers([pythonOf(title) ?? "", this.#write(title, given)]);
    // A fragment of a configuration: test/project/snippets-docs.test.ts reads them all.
    if (language === "yaml" && title === null) return;
    this.#show(title, given);
  }

  async #shell(commands: string): Promise<void> {
    const exported = join(this.#home, "exported");
    const script = `[ ! -f ${exported} ] || . ${exported}\n${commands}\nexport -p > ${exported}\n`;
    const env = { ...this.#environment(), SLUICE_CONFIG: join(gateway.directory, "sluice.yaml") };
    const { code, out, err } = await run(["sh", "-ec", script], this.#folder(), env);
    expect({ code, out, err }).toMatchObject({ code: 0 });
    this.#printed = out + err;
  }

  #expectPrinted(lines: string): void {
    for (const line of lines.split("\n")) expect(this.#printed).toContain(line);
  }

  /** A program that asks the model prints what the upstream said. */
  async #answers(command: readonly string[]): Promise<void> {
    const { code, out, err } = await run(command, this.#folder(), { ...this.#environment(), KEY: key });
    expect({ code, out, err }).toMatchObject({ code: 0 });
    expect(out.trim()).toBe(upstream.ledger.chats.at(-1)!.tokensSent.join("").trim());
  }

  /** A file that a command has written is as the page shows it; any other is written. */
  #show(title: string | null, text: string): void {
    if (title === null) throw new Error("nothing is known of this block: give it the title of its file");
    const file = title.startsWith("~/") ? join(this.#home, title.slice(2)) : join(this.#folder(), title);
    if (existsSync(file)) return expect(readFileSync(file, "utf8")).toBe(text);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** A file in a folder of its own, beside which the packages can be found. */
  #write(title: string | null, text: string, packages: string | null = null): string {
    const place = mkdtempSync(join(folder, "program-"));
    if (packages !== null) symlinkSync(packages, join(place, "node_modules"));
    writeFileSync(join(place, title ?? ""), text);
    return join(place, title ?? "");
  }

  #environment(): Record<string, string> {
    return {
      PATH: `${programs}:${process.env["PATH"] ?? ""}`,
      HOME: this.#home,
      LANG: "C.UTF-8",
      PYTHONDONTWRITEBYTECODE: "1",
      // The AI SDK warns of each model that it does not know.
      AI_SDK_LOG_WARNINGS: "false",
    };
  }
}

/** The packages that have what a program imports; null where they are not installed. */
function packagesOf(text: string): string | null {
  const names = [...text.matchAll(/^import .* from "([^"]+)";$/gm)].map(([, name = ""]) => name);
  const place = [join(root, "test"), join(root, "test/agents")].find((one) => names.every((name) => resolves(name, one)));
  return place === undefined ? null : join(place, "node_modules");
}

function resolves(name: string, place: string): boolean {
  try {
    return Bun.resolveSync(name, place).startsWith(join(place, "node_modules"));
  } catch {
    return false;
  }
}

/** The virtual environments of `npm run test:python`. */
const environments: Readonly<Record<string, string>> = {
  "hello_openai.py": "openai",
  "hello_langchain.py": "openai",
  "hello_llama_index.py": "llama-index",
  "hello_anthropic.py": "frameworks",
  "hello_genai.py": "frameworks",
  "hello_pydantic_ai.py": "frameworks",
};

/** Those that `bin/install-python-clients` is enough for: LlamaIndex holds on to an older client than they do. */
const withClients: readonly string[] = Object.keys(environments).filter((title) => title !== "hello_llama_index.py");

function pythonOf(title: string | null): string | null {
  const names = [environments[title ?? ""] ?? "", ...(withClients.includes(title ?? "") ? ["clients"] : [])];
  return names.map((name) => join(root, ".venv", name, "bin/python")).find((python) => existsSync(python)) ?? null;
}

/** Why a block cannot be run here; null where it can. */
function missing({ language, title, text }: FencedBlock): string | null {
  if (language === "sh" && text.includes("curl") && Bun.which("curl") === null) return "curl";
  if (language === "js") return foundOrSkipped("agents", `package for ${title}`, packagesOf(text)) === null ? "npm run test:agents" : null;
  if (language !== "python") return null;
  if (!withClients.includes(title ?? "")) return pythonOf(title) === null ? "npm run test:python" : null;
  return foundOrSkipped("python", `Python with the clients for ${title}`, pythonOf(title)) === null ? "bin/install-python-clients" : null;
}

function guide(name: string, where: (() => string) | null = null): void {
  const page = `docs/guides/${name}.md`;
  const place = mkdtempSync(join(folder, `${name}-`));
  const reader = new Reader(where ?? (() => place));
  for (const block of blocksOf(page)) {
    const without = missing(block);
    const words = without === null ? "" : ` (skipped without ${without})`;
    test.skipIf(without !== null)(`${page}:${block.line} works as it is shown, ${block.title ?? block.language}${words}`, () =>
      reader.read(block),
    );
  }
}

describe("each block", () => {
  test("of every guide is run here", () => {
    const names = readdirSync(join(root, "docs/guides")).toSorted();
    expect(names).toEqual(["clients.md", "five-minutes.md", "from-litellm.md", "from-portkey.md", "production.md"]);
  });

  guide("five-minutes");
  guide("from-litellm");
  guide("from-portkey");
  // Its reader is on the machine of the gateway.
  guide("production", () => gateway.directory);
  guide("clients");
});

test("the programs of docs/guides/clients.md are started with the address and the key of the gateway", () => {
  const [, ...started] = readFileSync(calls, "utf8").split("called: ");
  const calledWith = (name: string, line: string): boolean =>
    started.some((call) => call.startsWith(name) && call.split("\n").includes(line));
  expect(calledWith("claude", `ANTHROPIC_BASE_URL=${gateway.url}`)).toBe(true);
  expect(calledWith("claude", `ANTHROPIC_AUTH_TOKEN=${key}`)).toBe(true);
  expect(calledWith("codex", `SLUICE_KEY=${key}`)).toBe(true);
  expect(calledWith("gemini", "gemini --model your-model")).toBe(true);
  expect(calledWith("gemini", `GOOGLE_GEMINI_BASE_URL=${gateway.url}`)).toBe(true);
  expect(calledWith("opencode", `SLUICE_KEY=${key}`)).toBe(true);
  const [open, ...others] = started.filter((call) => call.startsWith("docker"));
  expect(others).toEqual([]);
  const [command = ""] = (open ?? "").split("\n");
  const words = command.split(" ");
  expect(words.slice(0, 2)).toEqual(["docker", "run"]);
  const given = words.filter((_, at) => words[at - 1] === "-e");
  expect(given).toContain("OPENAI_API_BASE_URL=http://host.docker.internal:4400/v1");
  expect(given).toContain(`OPENAI_API_KEY=${key}`);
  expect(words).toContain("--add-host=host.docker.internal:host-gateway");
  expect(words.at(-1)).toStartWith("ghcr.io/open-webui/open-webui:");
});

describe("the code that the playground of the console shows makes the same request:", () => {
  const said = 'It\'s "quoted" \\ $(date) `x` ${y}\nGrüße, 🌊.';
  const recording = "my recording's.wav";
  const model = "your-model";
  const codes = {
    chat: () =>
      chatCode(gateway.url, {
        model,
        stream: true,
        stream_options: { include_usage: true },
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: said },
        ],
      }),
    speech: () => speechCode(gateway.url, { model, voice: "alloy", input: said, response_format: "mp3" }),
    transcription: () => transcriptionCode(gateway.url, recording, { model, response_format: "json", language: "en" }),
  } as const;

  const commands: Readonly<Record<RequestCode["language"], (file: string) => readonly string[] | null>> = {
    curl: (file) => (Bun.which("curl") === null ? null : ["sh", "-e", file]),
    Python: (file) => {
      const python = pythonOf("hello_openai.py");
      if (python !== null) return [python, file];
      // Without the package, the program can be read at least.
      return Bun.which("python3") === null ? null : ["python3", "-c", `import ast; ast.parse(open(${JSON.stringify(file)}).read())`];
    },
    JavaScript: (file) => [process.execPath, file],
    "AI SDK": (file) => [process.execPath, file],
  };
  const languages = Object.keys(commands) as RequestCode["language"][];
  const cases = (Object.keys(codes) as (keyof typeof codes)[]).flatMap((operation) => languages.map((one) => [operation, one] as const));

  test.each(cases)("%s, %s", async (operation, language) => {
    const text = codes[operation]().find((one) => one.language === language)!.text;
    const place = mkdtempSync(join(folder, "playground-"));
    symlinkSync(join(root, "test/node_modules"), join(place, "node_modules"));
    writeFileSync(join(place, recording), readFileSync(join(root, "test/fixtures/audio/jfk.wav")));
    const file = join(place, language === "Python" ? "play.py" : language === "curl" ? "play.sh" : "play.mjs");
    writeFileSync(file, text);
    const command = commands[language](file);
    if (command === null) return;
    const env = { PATH: `${programs}:${process.env["PATH"] ?? ""}`, HOME: place, LANG: "C.UTF-8", KEY: key, AI_SDK_LOG_WARNINGS: "false" };
    const before = upstream.ledger.chats.length;
    const { code, out, err } = await run(command, place, env);
    expect({ code, out, err }).toMatchObject({ code: 0 });
    if (command[0] === "python3") return;
    const [asked, ...more] = upstream.ledger.chats.slice(before);
    expect(more).toEqual([]);
    if (operation === "transcription") {
      expect(asked?.upload).not.toBeNull();
      expect(out).toContain(asked!.tokensSent.join("").trim());
      return;
    }
    const body = JSON.parse(Buffer.from(asked!.body).toString()) as {
      readonly messages?: readonly { readonly content: string }[];
      readonly input?: string;
    };
    expect(operation === "chat" ? body.messages?.at(-1)?.content : body.input).toBe(said);
    if (operation === "speech") expect(readFileSync(join(place, "speech.mp3")).length).toBeGreaterThan(1000);
    else if (language === "curl") expect(out).toContain("data: [DONE]");
    else expect(out.trim()).toBe(asked!.tokensSent.join("").trim());
  });
});

const clientsPage = pageText("docs/guides/clients.md").replaceAll(/\s+/g, " ");

/** The path of the address that the page tells a client to use. */
function basePath(pattern: RegExp): string {
  const [, address = ""] = pattern.exec(clientsPage) ?? [];
  return new URL(address).pathname;
}

async function send(base: string, { method, path, headers, body, form }: RecordedRequest): Promise<{ status: number; text: string }> {
  const upload = new FormData();
  for (const [name, value] of Object.entries(form ?? {})) upload.set(name, value);
  if (form !== undefined) upload.set("file", Bun.file(join(root, "test/fixtures/audio/jfk.wav")), "audio.wav");
  const response = await fetch(gateway.url + base + path, {
    method,
    headers: { ...headers, authorization: `Bearer ${key}`, ...(body === undefined ? undefined : { "content-type": "application/json" }) },
    body: form === undefined ? (body === undefined ? null : JSON.stringify(body)) : upload,
  });
  return { status: response.status, text: await response.text() };
}

const cursorBase = basePath(/\*Override OpenAI Base URL\*, and enter `(\S+)`/);
const openWebUiBase = basePath(/OPENAI_API_BASE_URL=(\S+)/);

describe("what a client sends that cannot run here is served at the address of its section:", () => {
  test.each(cursorRequests.map((request) => [request.name, request] as const))("Cursor, %s", async (_, request) => {
    const { status, text } = await send(cursorBase, request);
    expect({ status, text }).toMatchObject({ status: 200 });
    expect(text).toEndWith(request.body?.["stream"] === true ? "data: [DONE]\n\n" : "}");
  });

  test.each(openWebUiRequests.map((request) => [request.name, request] as const))("Open WebUI, %s", async (_, request) => {
    const { status, text } = await send(openWebUiBase, request);
    expect({ status, text }).toMatchObject({ status: 200 });
    expect(text.length).toBeGreaterThan(0);
  });

  test("Cursor's own tool of an agent is passed on as it is, as the page says", async () => {
    const { status, text } = await send(cursorBase, cursorAgentRequest);
    expect({ status, text }).toMatchObject({ status: 200 });
    const received = JSON.parse(new TextDecoder().decode(upstream.ledger.chats.at(-1)!.body)) as Record<string, unknown>;
    expect(received).toEqual({ ...cursorAgentRequest.body });
    expect(clientsPage).toContain("It is passed on as it is to channels that speak chat completions");
  });

  test("but a request of the Responses API on the path of chats is refused, as the page says", async () => {
    const { status, text } = await send(cursorBase, cursorResponsesRequest);
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({ error: { code: "missing_required_parameter", param: "messages" } });
    expect(clientsPage).toContain("is refused with 400 `missing_required_parameter`");
  });
});
