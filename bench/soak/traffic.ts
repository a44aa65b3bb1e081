import { noiseWave } from "../recording.ts";
import type { SoakKey } from "./key-churn.ts";
import { markOf, type Manner } from "./upstream.ts";

export type Kind = keyof typeof weights;

/** What became of a call, as its client saw it. */
export interface Outcome {
  readonly kind: Kind;
  readonly keyId: string;
  /** 0 where there was no answer: the client left, or the connection was lost. */
  readonly status: number;
  /** Why the call did not end as it should have; null where it did. */
  readonly problem: string | null;
  /** The code with which the gateway refused to begin the call, because of its own state; null where it did not. Such a call has no receipt. */
  readonly refused: string | null;
}

/** In each hundred calls. */
const weights = {
  json: 20,
  stream: 32,
  messages: 5,
  embeddings: 5,
  upload: 6,
  largeUpload: 1,
  speech: 6,
  leave: 8,
  leaveEarly: 3,
  cut: 3,
  refuse: 3,
  error: 3,
  stall: 1,
  unknownModel: 2,
  brokenBody: 1,
  wrongKey: 1,
};

export const kinds = Object.keys(weights) as readonly Kind[];

/** Makes one call after the other by the clock, in an order that dice choose, and remembers how each ended. */
export class Traffic {
  readonly outcomes = new Map<number, Outcome>();
  running = 0;
  sent = 0;
  private readonly roll: () => number;
  /** Of the hundred calls that are being made: a short soak has made every kind as well, and not only by chance. */
  private left: Kind[] = [];

  constructor(
    private readonly origin: string,
    private readonly keys: () => readonly SoakKey[],
    seed: number,
  ) {
    this.roll = dice(seed);
  }

  /** Each kind of call once, so that everything that is started on first use has been started. */
  async rehearse(): Promise<void> {
    for (const kind of kinds) await this.call(kind);
  }

  /**
   * Calls until the signal; resolves when no further call begins. Now and then, as many calls as in some seconds begin at once: memory is as
   * large as the greatest peak needed it, and what is not given back after a peak shows only at the next one.
   */
  async run(perSecond: number, burstEveryMs: number, until: AbortSignal): Promise<void> {
    const startedMs = performance.now();
    let due = 0;
    let bursts = 0;
    while (!until.aborted) {
      due += 1;
      const waitMs = startedMs + (due * 1000) / perSecond - performance.now();
      if (waitMs > 0) await Bun.sleep(waitMs);
      this.begin(1);
      if (performance.now() - startedMs < (bursts + 1) * burstEveryMs) continue;
      bursts += 1;
      this.begin(perSecond * burstSeconds);
    }
  }

  private begin(calls: number): void {
    // A gateway that hangs must not make the soak itself grow.
    for (let begun = 0; begun < calls && this.running < runningMax; begun += 1) void this.call();
  }

  private async call(kind = this.nextKind()): Promise<void> {
    const call = ++this.sent;
    const keys = this.keys();
    const key = keys[Math.floor(this.roll() * keys.length)];
    if (key === undefined) return;
    const tokens = 4 + Math.floor(this.roll() * 40);
    this.running += 1;
    let ended: Ending;
    try {
      ended = await this.made(kind, call, key, tokens);
    } catch (error) {
      const expected = kind === "leave" || kind === "leaveEarly" || kind === "cut";
      ended = { status: 0, refused: null, problem: expected ? null : `${kind}: ${error instanceof Error ? error.message : String(error)}` };
    }
    this.running -= 1;
    this.outcomes.set(call, { kind, keyId: kind === "wrongKey" ? "" : key.id, ...ended });
  }

  private nextKind(): Kind {
    if (this.left.length === 0) this.left = kinds.flatMap((kind) => Array.from({ length: weights[kind] }, () => kind));
    const [kind = "json"] = this.left.splice(Math.floor(this.roll() * this.left.length), 1);
    return kind;
  }

  private async made(kind: Kind, call: number, key: SoakKey, tokens: number): Promise<Ending> {
    const leaving = new AbortController();
    if (kind === "leaveEarly") setTimeout(() => leaving.abort(), this.roll() * 20);
    const response = await fetch(this.origin + pathOf(kind), {
      method: "POST",
      headers: {
        authorization: `Bearer ${kind === "wrongKey" ? "sk-nobody-0123456789abcdef0123456789" : key.token}`,
        "x-request-id": requestIdOf(call),
        ...(isUpload(kind) ? {} : { "content-type": "application/json" }),
      },
      body: bodyOf(kind, call, tokens),
      // A connection that the client keeps would count as an open file of the gateway when all calls have ended.
      keepalive: false,
      signal: AbortSignal.any([leaving.signal, AbortSignal.timeout(callMsMax)]),
    });
    if (kind === "leave" && response.ok) {
      const reader = response.body?.getReader();
      const chunks = Math.floor(this.roll() * tokens);
      for (let chunk = 0; chunk < chunks && (await reader?.read())?.done === false; chunk += 1);
      leaving.abort();
      return { status: response.status, problem: null, refused: null };
    }
    const text = Buffer.from(await response.arrayBuffer()).toString("latin1");
    return endingOf(kind, response.status, text);
  }
}

type Ending = Pick<Outcome, "status" | "problem" | "refused">;

/** A call that the gateway had no room for, and said so, has ended as it should; one that it refused for another reason has not. */
export function endingOf(kind: Kind, status: number, text: string): Ending {
  const refused = refusalOf(status, text);
  return { status, refused, problem: refused === "overloaded" ? null : problemOf(kind, status, text) };
}

function refusalOf(status: number, text: string): string | null {
  if (status < 500) return null;
  const code = /"(?:code|error_code)":"(\w+)"/.exec(text)?.[1] ?? "";
  return refusals.has(code) ? code : null;
}

const refusals: ReadonlySet<string> = new Set(["overloaded", "store_unavailable"]);

export function requestIdOf(call: number): string {
  return `soak-${call}`;
}

function isUpload(kind: Kind): boolean {
  return kind === "upload" || kind === "largeUpload";
}

function pathOf(kind: Kind): string {
  if (isUpload(kind)) return "/v1/audio/transcriptions";
  if (kind === "speech") return "/v1/audio/speech";
  if (kind === "embeddings") return "/v1/embeddings";
  return kind === "messages" ? "/v1/messages" : "/v1/chat/completions";
}

function bodyOf(kind: Kind, call: number, tokens: number): string | FormData {
  const manner: Manner = kind === "cut" || kind === "refuse" || kind === "error" || kind === "stall" ? kind : "ok";
  const mark = markOf(call, manner, tokens);
  if (isUpload(kind)) {
    const form = new FormData();
    form.set("model", "soak-ears");
    form.set("prompt", mark);
    form.set("file", new Blob([kind === "upload" ? smallRecording : largeRecording], { type: "audio/wav" }), "recording.wav");
    return form;
  }
  if (kind === "speech") return JSON.stringify({ model: "soak-voice", voice: "alloy", input: `${mark} Good morning.` });
  if (kind === "embeddings") return JSON.stringify({ model: "soak-vectors", input: mark });
  const isFaulty = manner !== "ok";
  const model = kind === "unknownModel" ? "nobody-has-this" : isFaulty ? "soak-faulty" : "soak-chat";
  const request = {
    model,
    messages: [{ role: "user", content: `${mark} ${"Say something. ".repeat(call % 20)}` }],
    max_tokens: 500,
    ...(kind === "json" || kind === "unknownModel" || kind === "wrongKey" || kind === "refuse" ? {} : { stream: true }),
  };
  const text = JSON.stringify(request);
  return kind === "brokenBody" ? text.slice(0, -2) : text;
}

/** What is wrong with an answer that came; null if nothing is. */
function problemOf(kind: Kind, status: number, text: string): string | null {
  const wrong = (what: string): string => `${kind}: ${what}: ${text.slice(0, 300)}`;
  if (kind === "unknownModel" || kind === "brokenBody" || kind === "wrongKey") {
    const wanted = { unknownModel: 404, brokenBody: 400, wrongKey: 401 }[kind];
    // Who guesses too often is told to wait.
    const isThrottled = kind === "wrongKey" && status === 429;
    return status === wanted || isThrottled ? null : wrong(`${status} in place of ${wanted}`);
  }
  if (status !== 200) return wrong(String(status));
  // Another channel may go on with an answer that was cut, and need not.
  if (kind === "cut") return null;
  if (kind === "messages") return text.includes('"message_stop"') ? null : wrong("no end");
  if (kind === "stream" || kind === "error" || kind === "stall") return text.trimEnd().endsWith("data: [DONE]") ? null : wrong("no end");
  return text.length > 0 ? null : wrong("an empty answer");
}

function dice(seed: number): () => number {
  let state = Math.floor(seed) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const callMsMax = 60_000;
const burstSeconds = 4;
const runningMax = 2_000;
const smallRecording = new Uint8Array(noiseWave(60_000));
/** More than an upload may have in memory. */
const largeRecording = new Uint8Array(noiseWave(2_500_000));
