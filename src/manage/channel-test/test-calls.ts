import { type Operation, operationSpecs } from "../../operations/operation.ts";

/** How a small real call went. */
export interface TestCall {
  readonly operation: Operation;
  /** Null if the channel has no model for the operation. */
  readonly model: string | null;
  readonly ok: boolean;
  readonly status: number | null;
  readonly tookMs: number;
  /** What came of it, or what went wrong, in a few words. */
  readonly outcome: string;
  /** What a model wrote or heard; null if it was something else. */
  readonly text: string | null;
  /** What a model spoke. */
  readonly audio: TestAudio | null;
}

export interface TestAudio {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Null: the first model of each operation, and all operations but those that are expensive. */
export interface WantedCalls {
  readonly model: string | null;
  readonly operations: readonly Operation[] | null;
}

/** A model of the channel, as the gateway lists it. */
export interface TestedModel {
  readonly id: string;
  readonly operations: readonly string[];
}

/** A gateway that has no other channel, as a client with a key sees it. */
export interface TestTarget {
  /** Resolves with the answer and its bytes; null if there was none in time. It rejects if there is no connection. */
  readonly send: (path: string, body: string | FormData | null) => Promise<TestAnswer | null>;
  readonly nowMs: () => number;
}

export interface TestAnswer {
  readonly status: number;
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The operations that are tried unless others are named: one image costs as much as thousands of the other calls. */
const usualOperations = (Object.keys(operationSpecs) as Operation[]).filter((operation) => operation !== "image");

/** Makes the calls one after the other. */
export async function* testCalls(target: TestTarget, wanted: WantedCalls): AsyncGenerator<TestCall> {
  const models = await listedModels(target);
  const own = wanted.model === null ? undefined : models.find(({ id }) => id === wanted.model);
  const asked = wanted.operations ?? usualOperations.filter((one) => own === undefined || own.operations.includes(one));
  let spoken: TestAudio | null = null;
  // What was spoken is transcribed afterwards.
  for (const operation of asked.toSorted((one, other) => Number(one === "transcription") - Number(other === "transcription"))) {
    const model = wanted.model ?? models.find(({ operations }) => operations.includes(operation))?.id ?? null;
    if (model !== null) {
      const call = await testCall(target, operation, model, spoken);
      spoken ??= call.audio;
      yield call;
    }
    // An operation that nobody named and the channel does not have is no failure.
    else if (wanted.operations !== null) {
      const outcome = "no model of this channel is known to support it; name one";
      yield { operation, model, ok: false, status: null, tookMs: 0, outcome, text: null, audio: null };
    }
  }
}

async function listedModels({ send }: TestTarget): Promise<readonly TestedModel[]> {
  const answer = await send("/v1/models", null);
  const listed = answer === null ? null : (parsed(answer.bytes) as { readonly data?: readonly Partial<TestedModel>[] } | null);
  return (listed?.data ?? []).map(({ id = "", operations = [] }) => ({ id, operations }));
}

async function testCall({ send, nowMs }: TestTarget, operation: Operation, model: string, spoken: TestAudio | null): Promise<TestCall> {
  const { path, body } = requests[operation](model, spoken);
  const beganMs = nowMs();
  const failed = { operation, model, ok: false, status: null, text: null, audio: null };
  try {
    const answer = await send(path, body instanceof FormData ? body : JSON.stringify(body));
    const tookMs = Math.round(nowMs() - beganMs);
    if (answer === null) return { ...failed, tookMs, outcome: "no answer in time" };
    const { status, type, bytes } = answer;
    const json = type.includes("json") ? parsed(bytes) : null;
    if (status >= 300) return { ...failed, status, tookMs, outcome: errorIn(json) ?? `status ${status}` };
    const text = textIn(json);
    const audio = operation === "speech" && bytes.length <= audioBytesMax ? { type, bytes } : null;
    return { operation, model, ok: true, status, tookMs, outcome: described(operation, json, bytes.length), text, audio };
  } catch (error) {
    return { ...failed, tookMs: Math.round(nowMs() - beganMs), outcome: String(error) };
  }
}

/** Far more than a sentence has. */
const audioBytesMax = 1024 * 1024;
const textCharactersMax = 2000;

type TestRequest = (model: string, spoken: TestAudio | null) => { readonly path: string; readonly body: object };

const requests: { readonly [O in Operation]: TestRequest } = {
  chat: (model) => ({
    path: "/v1/chat/completions",
    body: { model, messages: [{ role: "user", content: "Answer with the word yes." }], max_tokens: 256 },
  }),
  completion: (model) => ({ path: "/v1/completions", body: { model, prompt: "One, two,", max_tokens: 4 } }),
  embedding: (model) => ({ path: "/v1/embeddings", body: { model, input: "test" } }),
  moderation: (model) => ({ path: "/v1/moderations", body: { model, input: "A friendly sentence." } }),
  rerank: (model) => ({ path: "/v1/rerank", body: { model, query: "fruit", documents: ["an apple", "a car"] } }),
  image: (model) => ({ path: "/v1/images/generations", body: { model, prompt: "A small grey circle on white.", n: 1 } }),
  speech: (model) => ({
    path: "/v1/audio/speech",
    body: { model, input: "This is a test of speech.", voice: "alloy", response_format: "mp3" },
  }),
  transcription: (model, spoken) => {
    const form = new FormData();
    form.set("model", model);
    const file = spoken === null ? new File([beep()], "test.wav", { type: "audio/wav" }) : new File([spoken.bytes], "test.mp3", spoken);
    form.set("file", file);
    return { path: "/v1/audio/transcriptions", body: form };
  },
};

/** A second of a quiet tone, as a WAV file of 16 kHz: some upstreams refuse a file without any sound. */
function beep(): ArrayBuffer {
  const rate = 16_000;
  const file = new DataView(new ArrayBuffer(44 + 2 * rate));
  const text = (at: number, value: string): void => new Uint8Array(file.buffer).set(new TextEncoder().encode(value), at);
  text(0, "RIFF");
  file.setUint32(4, 36 + 2 * rate, true);
  text(8, "WAVEfmt ");
  file.setUint32(16, 16, true);
  file.setUint16(20, 1, true);
  file.setUint16(22, 1, true);
  file.setUint32(24, rate, true);
  file.setUint32(28, 2 * rate, true);
  file.setUint16(32, 2, true);
  file.setUint16(34, 16, true);
  text(36, "data");
  file.setUint32(40, 2 * rate, true);
  for (let at = 0; at < rate; at++) file.setInt16(44 + 2 * at, Math.round(3000 * Math.sin((2 * Math.PI * 440 * at) / rate)), true);
  return file.buffer;
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

interface Answered {
  readonly choices?: readonly { readonly message?: { readonly content?: unknown }; readonly text?: unknown }[];
  readonly data?: readonly { readonly embedding?: readonly unknown[] }[];
  readonly results?: readonly unknown[];
  readonly text?: unknown;
}

function textIn(json: unknown): string | null {
  const answer: Answered | null = typeof json === "object" ? json : null;
  const said = answer?.choices?.[0]?.message?.content ?? answer?.choices?.[0]?.text ?? answer?.text;
  return typeof said === "string" ? said.trim().slice(0, textCharactersMax) : null;
}

function described(operation: Operation, json: unknown, bytes: number): string {
  const answer: Answered | null = typeof json === "object" ? json : null;
  const said = textIn(json);
  if (said !== null) return said === "" ? "an empty text" : `"${said.replaceAll(/\s+/g, " ").slice(0, 60)}"`;
  const vector = answer?.data?.[0]?.embedding;
  if (Array.isArray(vector)) return `${vector.length} dimensions`;
  if (operation === "speech") return `${bytes} bytes of audio`;
  if (Array.isArray(answer?.results)) return `${answer.results.length} results`;
  return `${bytes} bytes`;
}

function errorIn(json: unknown): string | null {
  const error = (json as { readonly error?: { readonly code?: unknown; readonly message?: unknown } } | null)?.error;
  if (typeof error?.message !== "string") return null;
  return typeof error.code === "string" ? `${error.code}: ${error.message}` : error.message;
}
