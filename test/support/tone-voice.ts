import type { Server } from "bun";

/** What a part was asked with. */
export interface Spoken {
  readonly body: Readonly<Record<string, unknown>>;
  readonly input: string;
  /** How many parts were asked for before it, by the whole upstream. */
  readonly turn: number;
  /** It was answered to its end. */
  finished: boolean;
  /** It was given up before that. */
  aborted: boolean;
  /** Bytes that were taken of the answer. */
  sentBytes: number;
}

export type Manner = (spoken: Spoken) => Response | Promise<Response> | null;

/**
 * A voice that can be heard by a program: every sentence that holds a number is a tone of 120 ms, whose pitch is the
 * number's. What it is to do otherwise, `manner` says.
 */
export class ToneVoice implements AsyncDisposable {
  readonly spoken: Spoken[] = [];
  manner: Manner = () => null;
  private readonly server: Server<undefined>;

  constructor() {
    this.server = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, fetch: (request) => this.answer(request) });
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}/v1`;
  }

  /** The texts of all parts, in the order they were asked for. */
  get inputs(): readonly string[] {
    return this.spoken.map(({ input }) => input);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop(true);
  }

  private async answer(request: Request): Promise<Response> {
    const body = (await request.json()) as Record<string, unknown>;
    const spoken: Spoken = { body, input: String(body["input"]), turn: this.spoken.length, finished: false, aborted: false, sentBytes: 0 };
    this.spoken.push(spoken);
    request.signal.addEventListener("abort", () => {
      if (!spoken.finished) spoken.aborted = true;
    });
    return (await this.manner(spoken)) ?? answerOf(spoken);
  }
}

/** The whole part, as samples and in chunks that cut through them. */
export function answerOf(spoken: Spoken, options: { readonly before?: () => Promise<unknown> } = {}): Response {
  return streamed(spoken, chunksOf(tones(numbersIn(spoken.input)), options.before), "audio/pcm");
}

export function streamed(spoken: Spoken, chunks: AsyncGenerator<Uint8Array, void, undefined>, type: string): Response {
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await chunks.next();
        if (done === true) {
          spoken.finished = true;
          return controller.close();
        }
        spoken.sentBytes += value.length;
        controller.enqueue(value);
      },
      cancel() {
        if (!spoken.finished) spoken.aborted = true;
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { "content-type": type } });
}

/** The last chunk waits for `before`. */
export async function* chunksOf(
  bytes: Uint8Array,
  before: () => Promise<unknown> = () => Promise.resolve(),
): AsyncGenerator<Uint8Array, void, undefined> {
  const last = Math.floor(bytes.length / 2) | 1;
  for (let at = 0; at < last; at += chunkBytes) yield bytes.subarray(at, Math.min(at + chunkBytes, last));
  await before();
  yield bytes.subarray(last);
}

const chunkBytes = 4_999;

export function numbersIn(text: string): readonly number[] {
  return Array.from(text.matchAll(/number (\d+)/g), ([, number]) => Number(number));
}

/** Sentences with these numbers. */
export function story(count: number): string {
  return Array.from({ length: count }, (_, at) => `This is sentence number ${at} of the story.`).join(" ");
}

const rate = 24_000;
const toneSamples = 2_880;
const pitches = [400, 600, 800, 1000, 1200, 1400, 1600, 1800] as const;

export function tones(numbers: readonly number[]): Uint8Array {
  const samples = new Int16Array(numbers.length * toneSamples);
  numbers.forEach((number, index) => {
    const pitch = pitches[number % pitches.length]!;
    for (let at = 0; at < toneSamples; at++) {
      samples[index * toneSamples + at] = Math.round(9_000 * Math.sin((2 * Math.PI * pitch * at) / rate));
    }
  });
  return new Uint8Array(samples.buffer);
}

/** The numbers that are heard, as far as the pitch tells them: one for each tone, in order. */
export function heard(samples: Float32Array, sampleRate: number): readonly number[] {
  const step = Math.round(sampleRate / 50);
  const windows: (number | null)[] = [];
  for (let at = 0; at + step <= samples.length; at += step) windows.push(pitchOf(samples.subarray(at, at + step), sampleRate));
  const found: number[] = [];
  let start = 0;
  for (let at = 1; at <= windows.length; at++) {
    if (at < windows.length && windows[at] === windows[start]) continue;
    const number = windows[start]!;
    const times = Math.round((at - start) / 6);
    if (number !== null) for (let time = 0; time < times; time++) found.push(number);
    start = at;
  }
  return found;
}

function pitchOf(window: Float32Array, sampleRate: number): number | null {
  const powers = pitches.map((pitch) => {
    let real = 0;
    let imaginary = 0;
    window.forEach((sample, at) => {
      real += sample * Math.cos((2 * Math.PI * pitch * at) / sampleRate);
      imaginary += sample * Math.sin((2 * Math.PI * pitch * at) / sampleRate);
    });
    return Math.hypot(real, imaginary) / window.length;
  });
  const best = Math.max(...powers);
  return best < 0.03 ? null : powers.indexOf(best);
}
