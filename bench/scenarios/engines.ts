import { speechPath, transcriptionPath } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { memberWith, peakBytes, residentBytes } from "../cpu.ts";
import { recordingRate, waveOf } from "../recording.ts";
import { median } from "../statistics.ts";
import type { Target } from "../target.ts";

/** What the models of this machine do in a second of waiting, through the gateway: at the first call, which starts them, and afterwards. */
export const engines: Scenario = async (bench) => {
  const gateway = await bench.gatewayWith({ channels: [], embedded: true });
  if (gateway === null) return [];
  const calls = bench.options.quick ? 1 : 3;
  let spoken = new Uint8Array(0);
  const lines = [
    await measured(gateway, calls, {
      model: "embedded/flite",
      engine: "speech",
      unit: "s of speech",
      call: async () => {
        spoken = await (await post(gateway, speechPath, speechBody())).bytes();
        return spoken.length / 2 / recordingRate;
      },
    }),
    await measured(gateway, calls, {
      model: "embedded/whisper-base",
      engine: "transcription",
      unit: "s of speech",
      call: async () => {
        const { text } = (await (await post(gateway, transcriptionPath, recordingForm(spoken))).json()) as { text: string };
        if (text.length < paragraph.length / 2) throw new Error(`of a paragraph was heard ${JSON.stringify(text)}`);
        return spoken.length / 2 / recordingRate;
      },
    }),
    await measured(gateway, calls, {
      model: "embedded/stories-15m",
      engine: "chat",
      unit: "tokens",
      call: async () => {
        const answer = (await (await post(gateway, "/v1/chat/completions", chatBody())).json()) as { usage: { completion_tokens: number } };
        return answer.usage.completion_tokens;
      },
    }),
  ];
  await gateway.stop();
  bench.show({
    title: "Engines, by the clock and through the gateway; seconds of speech per second is times real time",
    columns: ["model", "amount", "of", "first call, s", "cold, 1/s", "warm, 1/s", "memory, MB", "peak, MB"],
    lines,
  });
  return [];
};

interface Measurement {
  readonly model: string;
  readonly engine: "speech" | "transcription" | "chat";
  readonly unit: string;
  /** How much was done. */
  readonly call: () => Promise<number>;
}

async function measured(gateway: Target, calls: number, { model, engine, unit, call }: Measurement): Promise<readonly (string | number)[]> {
  console.error(`${model}, cold and warm`);
  const cold = await timed(call);
  const warm: number[] = [];
  for (let round = 0; round < calls; round += 1) {
    const { amount, seconds } = await timed(call);
    warm.push(amount / seconds);
  }
  const pid = memberWith(gateway.pid, ["--engine", engine]);
  if (pid === null) throw new Error(`no process runs the ${engine} engine`);
  const megabytes = [residentBytes(pid), peakBytes(pid)].map((bytes) => bytes / 1_000_000);
  return [model, cold.amount, unit, cold.seconds, cold.amount / cold.seconds, median(warm), ...megabytes];
}

async function timed(call: () => Promise<number>): Promise<{ readonly amount: number; readonly seconds: number }> {
  const began = performance.now();
  const amount = await call();
  return { amount, seconds: (performance.now() - began) / 1000 };
}

async function post(gateway: Target, path: string, body: string | FormData): Promise<Response> {
  const response = await fetch(gateway.origin + path, {
    method: "POST",
    headers: { ...gateway.headers, ...(typeof body === "string" ? { "content-type": "application/json" } : {}) },
    body,
    signal: AbortSignal.timeout(answersWithinMs),
  });
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return response;
}

const answersWithinMs = 180_000;

/** Some twenty seconds when spoken, in words that a small model knows. */
const paragraph =
  "The old house on the hill has a green door and seven windows. Every morning the postman walks slowly along the river, " +
  "and the dog at the corner waits for him under the apple tree. Please send the letter to my brother before Monday, " +
  "because he will travel to the city by train, and nobody knows when he is coming back. We talked about music until it was late.";

function speechBody(): string {
  return JSON.stringify({ model: "embedded/flite", voice: "rms", input: paragraph, response_format: "pcm" });
}

function recordingForm(pcm: Uint8Array): FormData {
  const form = new FormData();
  form.append("model", "embedded/whisper-base");
  form.append("file", new File([new Uint8Array(waveOf(pcm))], "paragraph.wav"));
  return form;
}

function chatBody(): string {
  return JSON.stringify({
    model: "embedded/stories-15m",
    messages: [{ role: "user", content: "Once upon a time" }],
    max_tokens: 200,
    temperature: 0,
  });
}
