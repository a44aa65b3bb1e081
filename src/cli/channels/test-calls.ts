import { type Operation, operationSpecs } from "../../operations/operation.ts";

/** How a small call went. */
export interface TestCall {
  readonly operation: Operation;
  /** Null if the channel has no model for the operation. */
  readonly model: string | null;
  readonly ok: boolean;
  readonly status: number | null;
  readonly tookMs: number;
  /** What came of it, or what went wrong, in a few words. */
  readonly outcome: string;
}

/** A model of the channel, as the gateway lists it. */
export interface TestedModel {
  readonly id: string;
  readonly operations: readonly string[];
}

export interface TestTarget {
  /** The address of a gateway that has no other channel. */
  readonly url: string;
  readonly key: string;
  readonly nowMs: () => number;
}

/** The operations that are tried unless others are named: one image costs as much as thousands of the other calls. */
const usualOperations = (Object.keys(operationSpecs) as Operation[]).filter((operation) => operation !== "image");

/** Makes the calls one after the other. */
export async function* testCalls(
  target: TestTarget,
  models: readonly TestedModel[],
  wanted: { readonly model: string | null; readonly operations: readonly Operation[] | null },
): AsyncGenerator<TestCall> {
  for (const operation of wanted.operations ?? usualOperations) {
    const model = wanted.model ?? models.find(({ operations }) => operations.includes(operation))?.id ?? null;
    if (model !== null) yield await testCall(target, operation, model);
    // An operation that nobody named and the channel does not have is no failure.
    else if (wanted.operations !== null) {
      yield {
        operation,
        model,
        ok: false,
        status: null,
        tookMs: 0,
        outcome: "no model of this channel is known to support it; name one with --model",
      };
    }
  }
}

async function testCall({ url, key, nowMs }: TestTarget, operation: Operation, model: string): Promise<TestCall> {
  const { path, body } = requests[operation](model);
  const isForm = body instanceof FormData;
  const beganMs = nowMs();
  const took = (): number => Math.round(nowMs() - beganMs);
  try {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, ...(isForm ? undefined : { "content-type": "application/json" }) },
      body: isForm ? body : JSON.stringify(body),
      signal: AbortSignal.timeout(callMsMax),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const json = response.headers.get("content-type")?.includes("json") === true ? parsed(bytes) : null;
    const { status, ok } = response;
    const outcome = ok ? described(operation, json, bytes.length) : (errorIn(json) ?? `status ${status}`);
    return { operation, model, ok, status, tookMs: took(), outcome };
  } catch (error) {
    const isLate = error instanceof Error && error.name === "TimeoutError";
    const outcome = isLate ? `no answer within ${callMsMax / 1000} s` : String(error);
    return { operation, model, ok: false, status: null, tookMs: took(), outcome };
  }
}

const callMsMax = 120_000;

type TestRequest = (model: string) => { readonly path: string; readonly body: object };

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
  speech: (model) => ({ path: "/v1/audio/speech", body: { model, input: "Test.", voice: "alloy", response_format: "mp3" } }),
  transcription: (model) => {
    const form = new FormData();
    form.set("model", model);
    form.set("file", new File([beep()], "test.wav", { type: "audio/wav" }));
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

function described(operation: Operation, json: unknown, bytes: number): string {
  const answer: Answered | null = typeof json === "object" ? json : null;
  const said = answer?.choices?.[0]?.message?.content ?? answer?.choices?.[0]?.text ?? answer?.text;
  if (typeof said === "string") return said.trim() === "" ? "an empty text" : `"${said.trim().replaceAll(/\s+/g, " ").slice(0, 60)}"`;
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
