// Needs: models. It runs the models of this machine.
import { afterAll, afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { addedModels, addonFolder, manifest, manifestName, type AddedModel } from "../../packages/embedded/src/addons/installed.ts";
import type { ChatModel, ChatTurn } from "../../packages/embedded/src/addons/llama.ts";
import { addons } from "../../packages/embedded/src/addons/table.ts";
import { catalog, type EmbeddedModel } from "../../packages/embedded/src/catalog.ts";
import type { GenerationOptions } from "../../packages/embedded/src/chat/stories.ts";
import { makeChatEngine } from "../../packages/embedded/src/server/chat-engine.ts";
import { backendOf } from "../../packages/embedded/src/server/chat-backend.ts";
import type { Engine } from "../../packages/embedded/src/server/engine.ts";
import { modelCache } from "../../packages/embedded/src/server/model-cache.ts";
import { isRequestError } from "../../packages/embedded/src/server/request-error.ts";
import { serveEngine } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeTranscriptionEngine } from "../../packages/embedded/src/server/transcription-engine.ts";
import { localModels } from "../../src/engines/catalog.ts";
import { engineCommand } from "../../src/engines/command.ts";
import { transcriptOf } from "../support/engine-process.ts";
import { eventually } from "../support/eventually.ts";
import { addWhisperCopy } from "../support/whisper-copy.ts";

// Models load slowly on a busy machine.
setDefaultTimeout(120_000);

const directory = mkdtempSync(join(tmpdir(), "addons-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let dataDir = "";
const endings: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  dataDir = mkdtempSync(join(directory, "data-"));
});
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

let sockets = 0;
function nextSocket(): { readonly socket: string; readonly ask: Ask } {
  const socket = join(directory, `${sockets++}.sock`);
  return { socket, ask: (path, init = {}) => fetch(`http://engine${path}`, { ...init, unix: socket }) };
}

/** An engine of this process, behind a real socket. */
function serve(engine: Engine): Ask {
  const { socket, ask } = nextSocket();
  const server = serveEngine(engine, { socket, idleMs: 600_000, onIdle: () => {} });
  endings.push(() => server.stop());
  return ask;
}

/** An engine as the gateway starts it. */
async function start(engine: "chat" | "transcription", data: string | null): Promise<Ask> {
  const { socket, ask } = nextSocket();
  const child = Bun.spawn([...engineCommand(engine, socket, data)], { stdin: "pipe", stdout: "pipe", stderr: "inherit", cwd: directory });
  endings.push(async () => {
    await child.stdin.end();
    await child.exited;
  });
  const lines = child.stdout.getReader();
  expect(new TextDecoder().decode((await lines.read()).value)).toBe('{"event":"ready"}\n');
  return ask;
}

const post = (ask: Ask, body: object, signal?: AbortSignal): Promise<Response> =>
  ask("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) });

async function listed(ask: Ask): Promise<readonly string[]> {
  const { data } = (await (await ask("/v1/models")).json()) as { readonly data: readonly { readonly id: string }[] };
  return data.map(({ id }) => id);
}

async function refused(
  response: Promise<Response>,
): Promise<{ readonly status: number; readonly code: unknown; readonly message: string }> {
  const answer = await response;
  const { error } = (await answer.json()) as { readonly error: { readonly code: unknown; readonly message: string } };
  return { status: answer.status, code: error.code, message: error.message };
}

/** An add-on in its place: complete to all appearance, but for its contents it is nothing but zeros. */
function addHollow(name: string): void {
  const addon = addons.find((candidate) => candidate.name === name)!;
  for (const { path, bytes } of addon.files) {
    const file = join(addonFolder(dataDir, name), path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    truncateSync(file, bytes);
  }
  writeFileSync(join(addonFolder(dataDir, name), manifestName), manifest(addon));
}

describe("an added Whisper", () => {
  test("with a changed file is rejected, with instructions", async () => {
    const addon = await addWhisperCopy(dataDir, "whisper-copy");
    const config = join(addonFolder(dataDir, addon.name), "config.json");
    const changed = (await Bun.file(config).text()).replace("{", " ").replace(/\}\s*$/, (end) => end.replace("}", " "));
    // Never in place: it may be the very file that is built in.
    rmSync(config);
    writeFileSync(config, changed);
    const ask = serve(makeTranscriptionEngine(() => addedModels(dataDir, [addon])));
    expect(await listed(ask)).toEqual(["whisper-copy"]);
    const form = new FormData();
    form.append("model", "whisper-copy");
    form.append("file", new Blob([new Uint8Array(100)]), "speech.wav");
    const { status, code, message } = await refused(ask("/v1/audio/transcriptions", { method: "POST", body: form }));
    expect({ status, code }).toEqual({ status: 503, code: "engine_unavailable" });
    expect(message).toContain("embedded/whisper-copy cannot be loaded: config.json");
    expect(message).toContain("sluice models remove whisper-copy");
    expect(message).not.toContain(dataDir);
  });
});

describe("an engine process", () => {
  test("serves only the built-in models without a data directory, or if nothing was added to it", async () => {
    addHollow("whisper-tiny");
    expect(await listed(await start("transcription", null))).toEqual(["whisper-base"]);
    expect(await listed(await start("transcription", join(dataDir, "nothing", "here")))).toEqual(["whisper-base"]);
  });

  test("serves the added models of its operation, from the moment they are added until they are removed", async () => {
    const ask = await start("transcription", dataDir);
    expect(await listed(ask)).toEqual(["whisper-base"]);
    addHollow("tinyllama");
    addHollow("whisper-tiny");
    expect(await listed(ask)).toEqual(["whisper-base", "whisper-tiny"]);
    rmSync(join(addonFolder(dataDir, "whisper-tiny"), manifestName));
    expect(await listed(ask)).toEqual(["whisper-base"]);
  });

  test("refuses to load a language model with another hash, and keeps serving the others", async () => {
    addHollow("tinyllama");
    const ask = await start("chat", dataDir);
    expect(await listed(ask)).toEqual(["stories-15m", "tinyllama"]);
    const messages = [{ role: "user", content: "Hi" }];
    const { status, code, message } = await refused(post(ask, { model: "tinyllama", messages }));
    expect({ status, code }).toEqual({ status: 503, code: "engine_unavailable" });
    expect(message).toContain("embedded/tinyllama cannot be loaded");
    expect((await post(ask, { model: "stories-15m", messages, max_tokens: 1 })).status).toBe(200);
  });

  test("reports an empty name of a data directory", async () => {
    const main = resolve(import.meta.dir, "../../packages/embedded/src/main.ts");
    const flags = ["--engine", "chat", "--socket", join(directory, "unused"), "--data", ""];
    const child = Bun.spawn([process.execPath, main, ...flags], { stdin: "pipe", stdout: "pipe", stderr: "pipe" });
    expect(await child.exited).toBe(64);
    expect(await new Response(child.stderr).json()).toEqual({ event: "failed", error: "--data must be a path" });
  });
});

describe("the gateway's list of local models", () => {
  test("contains the added models after the built-in ones, and is always current", async () => {
    const models = await localModels();
    const ids = (): readonly string[] => models(dataDir).map(({ id }) => id);
    const builtIn = catalog.map(({ id }) => id);
    expect(ids()).toEqual(builtIn);
    addHollow("tinyllama");
    expect(ids()).toEqual([...builtIn, "embedded/tinyllama"]);
    rmSync(addonFolder(dataDir, "tinyllama"), { recursive: true });
    expect(ids()).toEqual(builtIn);
  });
});

/** A small file with a hash as a model that was added. */
function smallModel(name: string, operation: EmbeddedModel["operation"] = "chat"): AddedModel {
  const folder = addonFolder(dataDir, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "weights"), name);
  const sha256 = new Bun.CryptoHasher("sha256").update(name).digest("hex");
  return {
    id: `embedded/${name}`,
    upstream: name,
    operation,
    description: "",
    package: "small",
    files: [{ path: "weights", bytes: name.length, sha256 }],
    licence: "",
    directory: folder,
  };
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (thrown: Error) => thrown.message,
  );

describe("the model cache", () => {
  test("closes a model before it loads the next, and loads it once for many uses", async () => {
    const events: string[] = [];
    const loaded = modelCache(
      async ({ upstream }, folder) => {
        events.push(`load ${upstream} from ${basename(folder)}`);
        return { upstream };
      },
      async ({ upstream }) => void events.push(`unload ${upstream}`),
    );
    const [first, second] = [smallModel("first"), smallModel("second")];
    for (const model of [first, first, { ...first }, second, first]) expect(await loaded(model)).toEqual({ upstream: model.upstream });
    expect(events).toEqual(["load first from first", "unload first", "load second from second", "unload second", "load first from first"]);
  });

  test("keeps the model if the next one is damaged, and tries that again once it is repaired", async () => {
    const events: string[] = [];
    const loaded = modelCache(
      async ({ upstream }) => {
        events.push(`load ${upstream}`);
        return { upstream };
      },
      async ({ upstream }) => void events.push(`unload ${upstream}`),
    );
    const [sound, damaged] = [smallModel("sound"), smallModel("damaged")];
    writeFileSync(join(damaged.directory, "weights"), "DAMAGED");
    await loaded(sound);
    expect(isRequestError(await loaded(damaged))).toBe(true);
    await loaded(sound);
    expect(events).toEqual(["load sound"]);
    writeFileSync(join(damaged.directory, "weights"), "damaged");
    expect(await loaded(damaged)).toEqual({ upstream: "damaged" });
    expect(events).toEqual(["load sound", "unload sound", "load damaged"]);
  });

  test("is empty after a failed load or close, and the next use loads again", async () => {
    const failing = new Set(["load second", "unload third"]);
    const step = (what: string): void => {
      if (failing.delete(what)) throw new Error(what);
    };
    const loaded = modelCache(
      async ({ upstream }) => {
        step(`load ${upstream}`);
        return { upstream };
      },
      async ({ upstream }) => step(`unload ${upstream}`),
    );
    const [first, second, third] = [smallModel("first"), smallModel("second"), smallModel("third")];
    await loaded(first);
    expect(await failureOf(loaded(second))).toBe("load second");
    expect(await loaded(second)).toEqual({ upstream: "second" });
    await loaded(third);
    expect(await failureOf(loaded(first))).toBe("unload third");
    expect(await loaded(first)).toEqual({ upstream: "first" });
  });
});

/** A language model that says what it was told to say, and remembers what it was asked: the real one is too large for a test. */
class StandIn implements ChatModel {
  readonly contextMax = 50;
  readonly asked: (readonly ChatTurn[])[] = [];
  readonly wishes: GenerationOptions[] = [];
  ended = 0;
  closed = 0;
  words: readonly string[] = ["Good", " day", "."];
  /** Says its last word for ever. */
  endless = false;

  prompt(messages: readonly ChatTurn[]): readonly number[] | null {
    this.asked.push(messages);
    const tokens = messages.flatMap(({ content }) => content.split(" ")).map((_, index) => index);
    return tokens.length >= this.contextMax ? null : tokens;
  }

  async *generate(_: readonly number[], wishes: GenerationOptions): ReturnType<ChatModel["generate"]> {
    this.wishes.push(wishes);
    try {
      // As while a long prompt is read.
      yield { text: "", tokens: 0, finish: null };
      for (const [index, text] of this.words.entries()) {
        yield { text, tokens: index + 1, finish: !this.endless && index === this.words.length - 1 ? "stop" : null };
      }
      while (this.endless) {
        await Bun.sleep(1);
        yield { text: " on", tokens: 9, finish: null };
      }
    } finally {
      this.ended++;
    }
  }

  async close(): Promise<void> {
    this.closed++;
  }
}

describe("an added language model", () => {
  let model = new StandIn();
  let ask: Ask;
  beforeEach(() => {
    model = new StandIn();
    const added = smallModel("talker");
    const builtIn = catalog.filter(({ operation }) => operation === "chat");
    ask = serve(
      makeChatEngine(
        () => [...builtIn, added],
        (which) => (which.upstream === "talker" ? { ...backendOf(which), load: async () => model } : backendOf(which)),
      ),
    );
  });

  const messages = [
    { role: "system", content: "Be kind." },
    { role: "developer", content: "And brief." },
    { role: "user", content: "Who are you?" },
    { role: "assistant", content: [{ type: "text", text: "A model." }], tool_calls: [] },
    {
      role: "user",
      content: [
        { type: "text", text: "What" },
        { type: "text", text: "day is it?" },
      ],
    },
  ];
  const talk = { model: "talker", messages };

  test("gets the whole conversation, and counts tokens correctly", async () => {
    const response = await post(ask, talk);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      model: "talker",
      choices: [{ message: { role: "assistant", content: "Good day." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 },
    });
    expect(model.asked).toEqual([
      [
        { role: "system", content: "Be kind." },
        { role: "system", content: "And brief." },
        { role: "user", content: "Who are you?" },
        { role: "assistant", content: "A model." },
        { role: "user", content: "What\nday is it?" },
      ],
    ]);
  });

  test("gets all options, and has its own defaults", async () => {
    const asked = { temperature: 0.2, top_p: 0.5, frequency_penalty: 1, presence_penalty: -1, max_tokens: 7, stop: ["a", "b"], seed: 5 };
    await (await post(ask, { ...talk, ...asked })).text();
    await (await post(ask, talk)).text();
    expect(model.wishes).toEqual([
      { temperature: 0.2, topP: 0.5, frequencyPenalty: 1, presencePenalty: -1, tokensMax: 7, stop: ["a", "b"], seed: "5" },
      { temperature: 0.7, topP: 0.95, frequencyPenalty: 0, presencePenalty: 0, tokensMax: Infinity, stop: [], seed: null },
    ]);
  });

  test("streams its answer word by word", async () => {
    const text = await (await post(ask, { ...talk, stream: true, stream_options: { include_usage: true } })).text();
    const deltas = [...text.matchAll(/"delta":\{"content":("[^"]*")\}/g)].map(([, word]) => JSON.parse(word!) as unknown);
    expect(deltas).toEqual(["Good", " day", "."]);
    expect(text).toContain('"prompt_tokens":12,"completion_tokens":3,"total_tokens":15');
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  test.each([
    [[{ role: "tool", content: "42", tool_call_id: "x" }], "unsupported_parameter"],
    [[{ role: "function", content: "42" }], "unsupported_parameter"],
    [[{ role: "wizard", content: "Abracadabra" }], "unsupported_parameter"],
    [[{ role: "assistant", content: null, tool_calls: [{ id: "x" }] }], "unsupported_parameter"],
    [[{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }], "unsupported_parameter"],
    [[{ role: 5, content: "x" }], "invalid_type"],
    [[], "invalid_value"],
    [[{ role: "user", content: "word ".repeat(60) }], "context_length_exceeded"],
  ])("refuses %j", async (wrong, code) => {
    expect(await refused(post(ask, { ...talk, messages: wrong }))).toMatchObject({ status: 400, code });
    expect(model.wishes).toEqual([]);
  });

  test.each([true, false])("stops when its client leaves, and the next request is served (streamed: %p)", async (stream) => {
    model.endless = true;
    const gone = new AbortController();
    const leaving = post(ask, { ...talk, stream }, gone.signal);
    if (stream) await (await leaving).body!.getReader().read();
    await eventually("it talks", () => model.wishes.length === 1);
    gone.abort();
    await leaving.catch(() => {});
    await eventually("it has stopped", () => model.ended === 1);
    model.endless = false;
    expect(await (await post(ask, talk)).json()).toMatchObject({ choices: [{ message: { content: "Good day." } }] });
  });

  test("is unloaded for the built-in chat model only when its own job is done", async () => {
    model.endless = true;
    const gone = new AbortController();
    const talking = await post(ask, { ...talk, stream: true }, gone.signal);
    await talking.body!.getReader().read();
    const story = post(ask, {
      model: "stories-15m",
      messages: [{ role: "user", content: "Once upon a time" }],
      temperature: 0,
      max_tokens: 3,
    });
    expect(model.closed).toBe(0);
    gone.abort();
    expect(await (await story).json()).toMatchObject({ choices: [{ message: { content: ", there was" } }] });
    expect({ ended: model.ended, closed: model.closed }).toEqual({ ended: 1, closed: 1 });
    model.endless = false;
    expect((await post(ask, talk)).status).toBe(200);
  });
});

/** Where real models may have been added: the folder that is the default, and one that is named for this test. */
const realDataDirs = [resolve(import.meta.dir, "../../data"), process.env["SLUICE_TEST_DATA_DIR"] ?? ""].filter((path) => path !== "");
const realDataDir = (name: string): string | undefined =>
  realDataDirs.find((path) => addedModels(path).some(({ upstream }) => upstream === name));

describe("a real added model, where there is one", () => {
  test.skipIf(realDataDir("whisper-tiny") === undefined)("whisper-tiny transcribes", async () => {
    const ask = await start("transcription", realDataDir("whisper-tiny")!);
    const audio = new Blob([await Bun.file(join(import.meta.dir, "../fixtures/audio/jfk.wav")).arrayBuffer()]);
    expect(await transcriptOf(ask, "whisper-tiny", audio)).toMatch(/ask not what your country can do for you/i);
  });

  test.skipIf(realDataDir("tinyllama") === undefined)("tinyllama answers", async () => {
    const ask = await start("chat", realDataDir("tinyllama")!);
    const asked = {
      model: "tinyllama",
      messages: [{ role: "user", content: "What is the capital of France?" }],
      temperature: 0,
      max_tokens: 24,
    };
    const answer = (await (await post(ask, asked)).json()) as {
      readonly choices: unknown;
      readonly usage: { readonly completion_tokens: number };
    };
    expect(JSON.stringify(answer.choices)).toContain("Paris");
    expect(answer.usage.completion_tokens).toBeGreaterThan(1);
    const beganMs = performance.now();
    const again = (await (await post(ask, asked)).json()) as typeof answer;
    console.log(`tinyllama: ${((again.usage.completion_tokens * 1000) / (performance.now() - beganMs)).toFixed(1)} tokens per second`);
    expect(again.choices).toEqual(answer.choices);
  });
});
