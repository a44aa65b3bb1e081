import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Channel } from "../../src/channels/channel.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { Dialect, EncodedRequest, StreamReader, Target } from "../../src/dialects/dialect.ts";
import { sealFor } from "../../src/gateway/attempt/carried-parts.ts";
import { Relay } from "../../src/gateway/attempt/relay.ts";
import { errorEvent } from "../../src/http/errors.ts";
import type { ChatRequest } from "../../src/operations/chat/chat-request.ts";
import type { AnswerContext, Surface } from "../../src/operations/conversation/surface.ts";
import type { Emission } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { carriedKeyOf } from "../../src/store/secrets/encryption.ts";
import { makeTextSeal } from "../../src/store/secrets/text-seal.ts";
import { clients, listOf, objectOf, pdf, png, words, type RequestKind, type SeenAnswer, type TestClient } from "./clients.ts";

type Json = Readonly<Record<string, unknown>>;

/** The answers of one dialect's provider, in its own API: `test/fixtures/dialects/README.md`. */
export interface Upstream {
  readonly dialect: Dialect;
  readonly channel: Channel;
  readonly model: string;
  readonly folder: string;
}

export async function openUpstream(dialect: Dialect, folder: string): Promise<Upstream> {
  const { answersOf, ...settings } = JSON.parse(readFileSync(join(folder, "channel.json"), "utf8")) as Json;
  const text = JSON.stringify({ channels: [{ name: "a", ...settings }] });
  const loaded = await loadConfig({ path: null, text, env: {}, nofile: 20_000 });
  if (!loaded.ok) throw new Error(`${folder}/channel.json: ${loaded.problems[0]?.reason}`);
  const [channel] = loaded.settings.channels;
  if (channel === undefined || channel.dialect !== dialect.name) throw new Error(`${folder}/channel.json is no channel of ${dialect.name}`);
  const answers = typeof answersOf === "string" ? join(folder, "..", answersOf) : folder;
  return { dialect, channel, model: String(listOf(settings["models"])[0]), folder: answers };
}

/** How one cell of the table came out. Only `lost` is wrong: something disappeared without a word. */
export type CellOutcome = "yes" | "as it is" | "dropped" | "refused" | "moved" | "none" | "lost";

/** One surface over one dialect, without sockets: encode, decode, write, and read what the client got. */
export class Pair {
  private readonly deployment: { readonly id: string; readonly channel: Channel; readonly model: string };
  private readonly client: TestClient;
  readonly trouble: string[] = [];

  constructor(
    readonly surface: Surface,
    readonly upstream: Upstream,
  ) {
    this.client = clients[surface.name];
    this.deployment = { id: "a/m", channel: upstream.channel, model: upstream.model };
  }

  /** The request arrives with all that it says. */
  async request(kind: RequestKind): Promise<CellOutcome> {
    const ask = this.client.ask(kind);
    if (ask === null) return "none";
    const encoded = this.encode(ask);
    if (isFailure(encoded)) return encoded.kind === "unsupported" ? "refused" : this.lost(`${kind}: ${encoded.detail}`);
    const body = await bodyOf(encoded);
    const missing = marksOf[kind].filter((mark) => !body.includes(mark));
    if (missing.length > 0) {
      return (encoded.dropped ?? []).length > 0 ? "dropped" : this.lost(`${kind}: the upstream does not get ${missing.join(", ")}`);
    }
    if (kind === "system" && !inOrder(body, [words.user, words.answer, words.laterSystem, words.nextUser])) return "moved";
    return encoded.translated === true ? "yes" : "as it is";
  }

  /** Both forms of an answer say the same to the client, and it is what the upstream said. */
  async answer(name: string, kind: RequestKind, expected: (seen: SeenAnswer) => boolean): Promise<CellOutcome> {
    if (!existsSync(this.file(`${name}.json`))) return "none";
    for (const stream of [false, true]) {
      const encoded = this.encode({ ...this.client.ask(kind), ...(stream ? { stream, ...this.streamOptions() } : undefined) });
      if (isFailure(encoded)) return "refused";
      const got = stream ? await this.streamed(encoded, this.chunks(name)) : this.whole(encoded, name);
      if (got === null || isFailure(got)) return this.lost(`${name}, streamed ${stream}: ${got?.detail ?? "the stream has no end"}`);
      const seen = this.client.seen(got);
      if (!expected(seen)) return this.lost(`${name}, streamed ${stream}: ${JSON.stringify(seen)}`);
      if (stream && encoded.translated !== true) return "as it is";
    }
    return "yes";
  }

  /** Reasoning returns to the upstream for five turns, and what is sent begins as it did before. */
  async loop(name: string, marks: readonly string[]): Promise<CellOutcome> {
    if (!existsSync(this.file(`${name}.json`))) return "none";
    for (const stream of [false, true]) {
      let ask: Json = { ...this.client.ask("tools"), ...(stream ? { stream, ...this.streamOptions() } : undefined) };
      let before = "";
      for (let turn = 0; turn < 5; turn++) {
        const encoded = this.encode(ask);
        if (isFailure(encoded)) return this.lost(`turn ${turn}: ${encoded.detail}`);
        const body = await bodyOf(encoded);
        for (const mark of marks) {
          const count = body.split(mark).length - 1;
          if (count < turn) return this.lost(`turn ${turn}, streamed ${stream}: ${mark} came back ${count} times`);
        }
        if (body.includes("sluice-v1.")) return this.lost(`turn ${turn}: a sealed value was forwarded`);
        if (turn > 0 && !body.startsWith(before)) return this.lost(`turn ${turn}: the request does not begin as before`);
        // The end of the list of messages, and whatever follows it, changes with each turn.
        before = body.slice(0, body.lastIndexOf(words.result));
        const got = stream ? await this.streamed(encoded, this.chunks(name)) : this.whole(encoded, name);
        if (got === null || isFailure(got)) return this.lost(`turn ${turn}, streamed ${stream}: ${got?.detail ?? "the stream has no end"}`);
        ask = this.client.next(ask, got);
      }
    }
    return "yes";
  }

  /** Wherever a stream is cut, the client is told, unless it has everything. */
  async cut(name: string, kind: RequestKind): Promise<CellOutcome> {
    const chunks = this.chunks(name);
    const ask = { ...this.client.ask(kind), stream: true, ...this.streamOptions() };
    const all = this.encode(ask);
    if (isFailure(all)) return "refused";
    const whole = await this.streamed(all, chunks);
    if (whole === null || isFailure(whole)) return this.lost(`${name}: the stream has no end`);
    const { text, calls } = this.client.seen(whole);
    for (let at = 0; at < chunks.length; at++) {
      const encoded = this.encode(ask);
      if (isFailure(encoded)) return "refused";
      const got = await this.streamed(encoded, chunks.slice(0, at));
      if (got === null || isFailure(got)) continue;
      const seen = this.client.seen(got);
      const same = seen.text === text && seen.calls.length === calls.length;
      if (!same) return this.lost(`${name}, cut after ${at} events: ${JSON.stringify(seen)}`);
    }
    return "yes";
  }

  /** Each error that the provider documents has its class, and the client reads it in its own API. */
  errors(): CellOutcome {
    const file = this.file("errors.json");
    if (!existsSync(file)) return "none";
    const rows = JSON.parse(readFileSync(file, "utf8")) as readonly ErrorRow[];
    const { chat } = this.upstream.dialect;
    for (const { status, headers, body, kind } of rows) {
      const header = (name: string): string | null => headers?.[name] ?? null;
      const failure = chat!.explain({ status, header, body: typeof body === "string" ? body : JSON.stringify(body) });
      if (failure.kind !== kind) return this.lost(`${status} ${kind} is read as ${failure.kind}`);
      const told = this.surface.error({ status, type: "t", code: null, param: null, message: failure.publicMessage }, "req_1");
      if (!new TextDecoder().decode(told).includes(JSON.stringify(failure.publicMessage))) return this.lost(`${kind} has no message`);
      const event = new TextDecoder().decode(errorEvent(failure, "req_1", this.surface));
      if (!event.includes("data: {")) return this.lost(`${kind} is no event`);
    }
    return rows.length === 0 ? "none" : "yes";
  }

  private encode(ask: Json): EncodedRequest | Failure {
    const request = this.surface.parse(new TextEncoder().encode(JSON.stringify(ask)));
    if (isFailure(request)) return request;
    this.context = this.contextOf(request);
    const target: Target = {
      channel: this.upstream.channel,
      model: this.upstream.model,
      ceiling: null,
      meterStream: true,
      forwarded: {},
      seal,
      keyId: "key",
    };
    return this.upstream.dialect.chat!.encode(request, target);
  }

  private context!: AnswerContext;
  private count = 0;

  private contextOf(ask: ChatRequest): AnswerContext {
    const { model, promptTokensEstimate, maxCompletionTokens } = ask;
    const request = { model, promptTokensEstimate, maxCompletionTokens, echo: this.surface.echo?.(ask) ?? {} };
    return { request, idSeed: `seed${this.count++}`, nowSeconds: 1_700_000_000, seal: sealFor(seal, "key", () => this.deployment) };
  }

  private whole(encoded: EncodedRequest, name: string): Json | Failure {
    const { answer } = encoded;
    const body = new Uint8Array(readFileSync(this.file(`${name}.json`)));
    if (answer.kind !== "whole") throw new Error("a stream is expected");
    const read = answer.read(body, head("application/json"));
    if (isFailure(read)) return read;
    const written = encoded.translated === true && read.answer !== undefined ? this.surface.whole(read.answer, this.context) : read.body;
    return JSON.parse(new TextDecoder().decode(written)) as Json;
  }

  /** Null where the client is told of an interruption, or gets no end. */
  private async streamed(encoded: EncodedRequest, chunks: readonly Uint8Array[]): Promise<Json | Failure | null> {
    const { answer, translated = false } = encoded;
    if (answer.kind !== "stream") throw new Error("a whole answer is expected");
    const reader = await answer.reader(head("text/event-stream"), tools);
    if (isFailure(reader)) return reader;
    const source = { first: [] as Emission[], translated, next: emissionsOf(reader, chunks), abandon: () => {} };
    const relay = new Relay(
      source,
      () => null,
      true,
      null,
      () => this.surface.writer(this.context),
    );
    let text = "";
    const decoder = new TextDecoder();
    for (;;) {
      const frames = await relay.next();
      if (frames === null) break;
      if (isFailure(frames)) return frames;
      text += decoder.decode(frames, { stream: true });
    }
    return this.client.joined(eventsOf(text));
  }

  private chunks(name: string): readonly Uint8Array[] {
    const framed = this.file(`${name}.base64`);
    if (existsSync(framed)) {
      return readFileSync(framed, "utf8")
        .trim()
        .split("\n")
        .map((line) => new Uint8Array(Buffer.from(line, "base64")));
    }
    const text = readFileSync(this.file(`${name}.sse`), "utf8");
    return text.split(/(?<=\n\n)/).map((event) => new TextEncoder().encode(event));
  }

  private streamOptions(): Json {
    return this.surface.name === "openai-chat" ? { stream_options: { include_usage: true } } : {};
  }

  private file(name: string): string {
    return join(this.upstream.folder, name);
  }

  private lost(why: string): CellOutcome {
    this.trouble.push(why);
    return "lost";
  }
}

interface ErrorRow {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly kind: string;
}

/** What must be in the body that the upstream gets. */
const marksOf: Readonly<Record<RequestKind, readonly string[]>> = {
  text: [words.system, words.user],
  system: [words.system, words.user, words.answer, words.laterSystem, words.nextUser],
  tools: [words.user, "read_file", "list_files", "read_file.txt", "list_files.txt", words.result, words.otherResult],
  toolImage: [words.result, words.otherResult, png],
  image: [words.user, png],
  file: [words.user, pdf],
  schema: [words.user, words.property],
};

const seal = makeTextSeal(carriedKeyOf(new Uint8Array(32).fill(7)));
const tools = {
  transcoder: () => {
    throw new Error("a chat has no audio to transcode");
  },
};

function head(type: string): { readonly status: number; readonly header: (name: string) => string | null } {
  return { status: 200, header: (name) => (name.toLowerCase() === "content-type" ? type : null) };
}

async function bodyOf({ request: { body } }: EncodedRequest): Promise<string> {
  if (body === null) return "";
  if (body instanceof Uint8Array) return new TextDecoder().decode(body);
  let text = "";
  for await (const part of body.parts()) text += new TextDecoder().decode(part);
  return text;
}

function inOrder(body: string, marks: readonly string[]): boolean {
  const places = marks.map((mark) => body.indexOf(mark));
  return places.every((place, at) => at === 0 || place > places[at - 1]!);
}

/** What the reader makes of each chunk, then of the end; as the gateway reads a stream. */
function emissionsOf(reader: StreamReader, chunks: readonly Uint8Array[]): () => Promise<readonly Emission[] | Failure | null> {
  const waiting = [...chunks, null];
  return async () => {
    for (;;) {
      if (reader.pending !== null) return reader.pending;
      const chunk = waiting.shift();
      if (chunk === undefined) return null;
      const read = await (chunk === null ? reader.close() : reader.push(chunk));
      if (isFailure(read) || read.length > 0) return read;
    }
  };
}

function eventsOf(text: string): readonly Json[] {
  return text.split("\n\n").flatMap((event) => {
    const data = event
      .split("\n")
      .filter((line) => line.startsWith("data: "))
      .map((line) => line.slice(6))
      .join("\n");
    return data === "" || data === "[DONE]" ? [] : [objectOf(JSON.parse(data))];
  });
}
