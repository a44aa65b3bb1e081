import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Channel } from "../../src/channels/channel.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { Dialect, EncodedRequest, StreamReader, Target } from "../../src/dialects/dialect.ts";
import { sealFor } from "../../src/gateway/attempt/carried-parts.ts";
import { Relay } from "../../src/gateway/attempt/relay.ts";
import { errorEvent, errorResponse } from "../../src/http/errors.ts";
import { ResponseHead } from "../../src/net/server/http-response.ts";
import type { ChatRequest } from "../../src/operations/chat/chat-request.ts";
import type { AnswerContext, Surface } from "../../src/operations/conversation/surface.ts";
import type { Emission } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { carriedKeyOf } from "../../src/store/secrets/encryption.ts";
import { makeTextSeal } from "../../src/store/secrets/text-seal.ts";
import { settingsOf } from "./settings.ts";
import { Traffic } from "./traffic.ts";
import {
  clients,
  listOf,
  objectOf,
  pdf,
  png,
  words,
  type RequestKind,
  type SeenAnswer,
  type TestClient,
  type UsageParts,
} from "./clients.ts";

type Json = Readonly<Record<string, unknown>>;

/** The answers of one dialect's provider, in its own API: `test/fixtures/dialects/README.md`. */
export interface Upstream {
  readonly dialect: Dialect;
  readonly channel: Channel;
  readonly model: string;
  readonly folder: string;
}

/** The settings of a channel in a configuration, without its name. */
export type ChannelSettings = Json;

export async function openUpstream(dialect: Dialect, folder: string, other?: ChannelSettings): Promise<Upstream> {
  const { answersOf, ...own } = JSON.parse(readFileSync(join(folder, "channel.json"), "utf8")) as Json;
  const settings = other ?? own;
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
  readonly traffic = new Traffic();

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
    const body = await this.bodyOf(encoded);
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

  /** Every figure of the usage that both APIs have a place for is the upstream's. */
  async usage(): Promise<CellOutcome> {
    const parts = JSON.parse(readFileSync(this.file("usage-parts.json"), "utf8")) as UsageParts;
    return this.answer("usage", "text", ({ usage }) => {
      if (usage === null) return false;
      const { input, output, ...seen } = usage;
      const isTold = Object.entries(seen).every(([part, count]) => count === (parts[part as keyof UsageParts] ?? 0));
      return input === 100 && output === 30 && isTold;
    });
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
        const body = await this.bodyOf(encoded);
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

  /** Each error that the provider documents has its class, before and in a stream, and the client reads it in its own API. */
  async errors(): Promise<CellOutcome> {
    const file = this.file("errors.json");
    if (!existsSync(file)) return "none";
    const rows = JSON.parse(readFileSync(file, "utf8")) as readonly ErrorRow[];
    for (const row of rows) {
      const failure = row.event === undefined ? this.refused(row) : await this.brokenOff(row);
      if (typeof failure === "string") return this.lost(failure);
      const { body } = errorResponse(failure, new ResponseHead("req_1"), failure.retryAfterMs, this.surface);
      const told = JSON.parse(new TextDecoder().decode(body as Uint8Array)) as Json;
      const events = eventsOf(new TextDecoder().decode(errorEvent(failure, "req_1", this.surface)));
      this.traffic.add("error", told);
      for (const event of events) this.traffic.add("errorEvent", event);
      for (const one of [told, events.at(-1) ?? {}]) {
        const message = this.client.failed(one);
        if (message?.endsWith(failure.publicMessage) !== true) return this.lost(`${row.kind} is told as ${JSON.stringify(one)}`);
      }
    }
    return rows.length === 0 ? "none" : "yes";
  }

  private refused({ status, headers, body, kind, retryAfterMs = null }: ErrorRow): Failure | string {
    const header = (name: string): string | null => headers?.[name] ?? null;
    const failure = this.upstream.dialect.chat!.explain({ status, header, body: typeof body === "string" ? body : JSON.stringify(body) });
    if (failure.kind !== kind) return `${status} ${JSON.stringify(body)} is read as ${failure.kind}, not ${kind}`;
    return failure.retryAfterMs === retryAfterMs ? failure : `${status} ${kind} is to be retried after ${failure.retryAfterMs} ms`;
  }

  /** An error inside of a stream: it keeps its class before the first output, and interrupts the answer after it. */
  private async brokenOff({ event, kind }: ErrorRow): Promise<Failure | string> {
    const text = this.chunks("text");
    const broken = existsSync(this.file("text.base64")) ? new Uint8Array(Buffer.from(event!, "base64")) : new TextEncoder().encode(event);
    for (const [before, expected] of [
      [[], kind],
      [text.slice(0, Math.ceil(text.length / 2)), "interrupted"],
    ] as const) {
      const encoded = this.encode({ ...this.client.ask("text"), stream: true, ...this.streamOptions() });
      if (isFailure(encoded)) return encoded.detail;
      const got = await this.streamed(encoded, [...before, broken]);
      if (got === null || !isFailure(got)) return `an error of a stream after ${before.length} events is none`;
      if (got.kind !== expected) return `an error of a stream after ${before.length} events is ${got.kind}`;
      if (before.length > 0) return got;
    }
    return "a stream has no text to be broken off";
  }

  /** Sends requests with every setting that the client's API has. Those that the upstream cannot take at all are left out. */
  async settings(): Promise<void> {
    for (const settings of settingsOf[this.surface.name]) {
      const encoded = this.encode({ ...this.client.ask("tools"), ...settings });
      if (!isFailure(encoded)) await this.bodyOf(encoded);
      else if (encoded.kind !== "unsupported") this.lost(`${JSON.stringify(settings)}: ${encoded.detail}`);
    }
  }

  private async bodyOf(encoded: EncodedRequest): Promise<string> {
    const body = await textOf(encoded.request.body);
    this.traffic.add("request", JSON.parse(body));
    return body;
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
    const translated = encoded.translated === true && read.answer !== undefined;
    const written = translated ? this.surface.whole(read.answer, this.context) : read.body;
    const told = JSON.parse(new TextDecoder().decode(written)) as Json;
    if (translated) this.traffic.add("whole", told);
    return told;
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
    const events = eventsOf(text);
    if (translated) for (const event of events) this.traffic.add("event", event);
    return this.client.joined(events);
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

/** A refusal, or an event of a stream that is an error. */
interface ErrorRow {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly event?: string;
  readonly kind: string;
  readonly retryAfterMs?: number | null;
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

async function textOf(body: EncodedRequest["request"]["body"]): Promise<string> {
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
