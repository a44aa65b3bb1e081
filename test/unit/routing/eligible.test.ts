import { describe, expect, test } from "bun:test";
import { candidatesOf, type Candidate, type Channel, type Route } from "../../../src/channels/channel.ts";
import type { CallRequest } from "../../../src/operations/call-request.ts";
import { readChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import type { SpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import type { TranscriptFormat } from "../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { boundTo, eligible } from "../../../src/routing/eligible.ts";
import { channel } from "../../support/plan-world.ts";

const megabyte = 1024 * 1024;
const limits = { audioBytesMax: 25 * megabyte, speechCharactersMax: 4096 };
const never = { audio: false, input: false };

function routeOf(
  ...channels: readonly (Partial<Channel["capabilities"]> & { readonly name: string; readonly voices?: Channel["voices"] })[]
): Route {
  const tier = channels.flatMap(({ name, voices, ...capabilities }): readonly Candidate[] => {
    const plain = channel(name);
    const made: Channel = {
      ...plain,
      voices: voices ?? plain.voices,
      capabilities: { ...plain.capabilities, operations: ["chat", "transcription", "speech"], ...capabilities },
    };
    return candidatesOf({ id: `${name}/m`, channel: made, model: "m" });
  });
  return { model: "m", tiers: [tier], size: tier.length };
}

function recording(bytes: number, format: TranscriptFormat = "json", seconds: number | null = null): TranscriptionRequest {
  const content = { length: bytes, head: new Uint8Array(0), read: () => Promise.resolve(new Uint8Array(0)) };
  return {
    operation: "transcription",
    task: "transcribe",
    model: "m",
    stream: false,
    format,
    language: null,
    wantsWords: false,
    wantsSegments: false,
    fields: [],
    file: { name: "a.wav", type: null, content },
    seconds,
    isCut: false,
  };
}

function text(characters: number, voice: string | null = "alloy"): SpeechRequest {
  const document = { start: 0, end: 0 };
  return {
    operation: "speech",
    body: new Uint8Array(0),
    document,
    members: [],
    model: "m",
    input: "a".repeat(characters),
    characters,
    voice,
    format: "mp3",
    events: false,
  };
}

function names(
  route: Route,
  ask: CallRequest,
  splits = never,
): readonly string[] | { status: number | null; message: string; split?: boolean } {
  const found = eligible(route, ask, splits, limits);
  if (isFailure(found)) return { status: found.status, message: found.publicMessage };
  return found.route.tiers.flat().map(({ deployment }) => deployment.channel.name + (found.split ? " in parts" : ""));
}

describe("the eligible part of a route", () => {
  test("has the candidates that support the operation, so a speech model gets no chat", () => {
    const chat = readChatRequest(new TextEncoder().encode('{"model":"m","messages":[{"role":"user","content":"hi"}]}'));
    if (isFailure(chat)) throw new Error(chat.detail);
    const route = routeOf(
      { name: "a", operations: ["speech"] },
      { name: "b" },
      { name: "c", modelOperations: new Map([["m", ["speech"]]]) },
    );
    expect(names(route, chat)).toEqual(["b"]);
    expect(names(routeOf({ name: "a", operations: ["speech"] }), chat)).toMatchObject({
      status: 400,
      message: expect.stringContaining("'m'"),
    });
  });

  test("has a speech model for the chat of a client that speaks the upstream's own API", () => {
    const chat = readChatRequest(new TextEncoder().encode('{"model":"m","messages":[{"role":"user","content":"hi"}]}'));
    if (isFailure(chat)) throw new Error(chat.detail);
    const speaks = [{ part: "", operations: ["speech"] }] as const;
    const [own, other] = routeOf({ name: "own", namedOperations: speaks }, { name: "other", namedOperations: speaks }).tiers[0]!;
    const native = { ...own!, deployment: { ...own!.deployment, channel: { ...own!.deployment.channel, dialect: "gemini" } } };
    const route: Route = { model: "m", tiers: [[native, other!]], size: 2 };
    expect(names(route, chat)).toMatchObject({ status: 400 });
    expect(names(route, { ...chat, surface: "gemini" })).toEqual(["own"]);
  });

  test("is the same object if all candidates are eligible", () => {
    const route = routeOf({ name: "a" }, { name: "b" });
    const found = eligible(route, text(10), never, limits);
    expect(!isFailure(found) && found.route).toBe(route);
  });

  test("has the candidates that accept a file of this size; if there is none, 413 names the largest limit", () => {
    const route = routeOf({ name: "small", audioBytesMax: 1000 }, { name: "large", audioBytesMax: 5000 });
    expect(names(route, recording(900))).toEqual(["small", "large"]);
    expect(names(route, recording(1001))).toEqual(["large"]);
    expect(names(route, recording(5001))).toEqual({ status: 413, message: "Maximum content size limit (5000) exceeded (5001 bytes read)" });
    expect(names(routeOf({ name: "any" }), recording(26 * megabyte))).toMatchObject({ status: 413 });
  });

  test("has the candidates that accept a recording of this length or of unknown length; if there is none, 413 names the longest limit", () => {
    const route = routeOf({ name: "short", audioSecondsMax: 10 }, { name: "long", audioSecondsMax: 60 });
    expect(names(route, recording(900, "json", 10))).toEqual(["short", "long"]);
    expect(names(route, recording(900, "json", null))).toEqual(["short", "long"]);
    expect(names(route, recording(900, "json", 10.01))).toEqual(["long"]);
    const refused = { status: 413, message: "Maximum audio duration (60 seconds) exceeded (the file has 61 seconds)" };
    expect(names(route, recording(900, "json", 60.2))).toEqual(refused);
    expect(names(route, recording(900, "json", 60.2), { audio: true, input: false })).toEqual(["short in parts", "long in parts"]);
    // What has room for the bytes may lack the time, and the other way round.
    const split = routeOf({ name: "a", audioBytesMax: 100 }, { name: "b", audioSecondsMax: 10, splitsAudio: true });
    expect(names(split, recording(900, "json", 60))).toEqual(["b in parts"]);
    expect(names(split, recording(90, "json", 60))).toEqual(["a"]);
  });

  test("has the candidates with timestamps if they are needed; if there is none, the request is rejected", () => {
    const plain = { prefix: "", formats: ["json", "text"] } as const;
    const route = routeOf({ name: "plain", transcriptionFormats: [plain] }, { name: "unknown" });
    expect(names(route, recording(1, "json"))).toEqual(["plain", "unknown"]);
    expect(names(route, recording(1, "srt"))).toEqual(["unknown"]);
    const nobody = names(routeOf({ name: "plain", transcriptionFormats: [plain] }), recording(1, "vtt"));
    expect(nobody).toMatchObject({ status: 400, message: expect.stringContaining("timestamps") });
  });

  test("has the candidates that translate if a translation is requested", () => {
    const mute = { translation: false } as const;
    const route = routeOf({ name: "a", ...mute }, { name: "b", ...mute }, { name: "c" });
    expect(names(route, { ...recording(1), task: "translate" })).toEqual(["c"]);
    expect(names(routeOf({ name: "a", ...mute }), { ...recording(1), task: "translate" })).toMatchObject({ status: 400 });
  });

  test("has the candidates that declare speakers if they are requested", () => {
    const plain = { transcriptionFormats: [{ prefix: "", formats: ["verbose_json"] }] } as const;
    const speakers = { transcriptionFormats: [{ prefix: "", formats: ["diarized_json"] }] } as const;
    const route = routeOf({ name: "a", ...plain }, { name: "b", ...plain }, { name: "c", ...speakers });
    expect(names(route, recording(1, "diarized_json"))).toEqual(["c"]);
  });

  test("has the candidates that accept a text of this length and this voice", () => {
    const strict = { names: new Map([["alloy", "one"]]), unknown: "refuse", fallback: null } as const;
    const route = routeOf({ name: "short", inputCharactersMax: 100 }, { name: "strict", voices: strict }, { name: "any" });
    expect(names(route, text(100))).toEqual(["short", "strict", "any"]);
    expect(names(route, text(101, "nova"))).toEqual(["any"]);
    expect(names(routeOf({ name: "strict", voices: strict }), text(1, "nova"))).toMatchObject({ status: 400 });
    expect(names(routeOf({ name: "any" }), text(4097))).toMatchObject({ status: 400, message: expect.stringContaining("4096") });
  });

  test("is split only if the key or the channel allows it and the request needs it", () => {
    const route = routeOf(
      { name: "a", audioBytesMax: 1000, inputCharactersMax: 100 },
      { name: "b", audioBytesMax: 900, splitsAudio: true },
    );
    expect(names(route, recording(950))).toEqual(["a"]);
    expect(names(route, recording(2000))).toEqual(["b in parts"]);
    expect(names(route, recording(2000), { audio: true, input: false })).toEqual(["a in parts", "b in parts"]);
    expect(names(route, recording(30 * megabyte), { audio: true, input: false })).toEqual(["a in parts", "b in parts"]);
    expect(names(route, text(5000), { audio: true, input: false })).toMatchObject({ status: 400 });
    expect(names(route, text(5000), { audio: false, input: true })).toEqual(["a in parts", "b in parts"]);
  });
});

describe("the part of a route that a key is bound to", () => {
  const large = routeOf(...Array.from({ length: 3_000 }, (_, at) => ({ name: `${at % 3 === 0 ? "near" : "far"}-${at}` })));
  const namesOn = (route: Route | null): readonly string[] | undefined =>
    route?.tiers.flat().map(({ deployment }) => deployment.channel.name);

  test("has the channels that it names, on small and on large routes", () => {
    const small = routeOf({ name: "near-1" }, { name: "far-1" });
    expect(namesOn(boundTo(small, ["near-*"]))).toEqual(["near-1"]);
    expect(boundTo(small, ["*-1"])).toBe(small);
    expect(boundTo(small, ["none"])).toBeNull();
    expect(namesOn(boundTo(large, ["near-3", "far-5"]))).toEqual(["near-3", "far-5"]);
    expect(boundTo(large, ["*"])).toBe(large);
    expect(boundTo(large, null)).toBe(large);
    expect(boundTo(large, ["none"])).toBeNull();
    expect(boundTo(large, ["none"])).toBeNull();
  });

  test("is looked for once on a large route, however many calls and keys it is for", () => {
    const first = boundTo(large, ["near-*"]);
    expect(first?.size).toBe(1_000);
    for (let key = 0; key < 5; key += 1) expect(boundTo(large, ["near-*"])).toBe(first);
  });

  test("stays right where keys name more parts than are remembered", () => {
    for (let round = 0; round < 2; round += 1) {
      for (let at = 0; at < 100; at += 1) expect(namesOn(boundTo(large, [`near-${at * 3}`]))).toEqual([`near-${at * 3}`]);
    }
  });
});

test("a request that every channel of a large route can serve gets the route itself, and what is remembered of it", () => {
  const shared = channel("like-all").capabilities;
  const tier = Array.from({ length: 1_000 }, (_, at) => {
    const made: Channel = {
      ...channel(`c${at}`),
      capabilities: { ...shared, operations: ["transcription", "speech"], audioBytesMax: 1_000 },
    };
    return candidatesOf({ id: `c${at}/m`, channel: made, model: "m" });
  }).flat();
  const route: Route = { model: "m", tiers: [tier], size: tier.length };
  for (const ask of [recording(1_000), text(10)]) {
    const found = eligible(route, ask, never, limits);
    expect(isFailure(found) ? null : found.route).toBe(route);
  }
  expect(names(route, recording(1_001))).toMatchObject({ status: 413 });
});
