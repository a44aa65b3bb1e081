// Needs: models, slow. A model hears minutes of speech; long-audio and embedded-whisper-parts prove the same of its parts.
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { wavFile } from "../../packages/embedded/src/split/wav-file.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { samplesOf, toneRate } from "../support/heard-tones.ts";
import { errorRate, wordErrors } from "../support/word-errors.ts";

// A window of the model costs two seconds, and much more on a machine with other work on it.
setDefaultTimeout(180_000);

const key = "sk-long-audio-of-these-tests";
const said = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";
const times = 3;

test("a long recording is transcribed by the model of this machine, with times that go on from part to part", async () => {
  const speech = samplesOf(plainWav(readFileSync(new URL("../fixtures/audio/jfk.wav", import.meta.url))));
  const each = speech.length + toneRate;
  const samples = new Int16Array(times * each);
  for (let index = 0; index < times; index++)
    samples.set(
      Int16Array.from(speech, (sample) => Math.round(sample * 32_767)),
      index * each,
    );
  const recording = wavFile(samples, toneRate);

  await using gateway = await startGateway({
    config: {
      keys: [{ name: "client", key, long_audio: "split" }],
      server: { audio_limit: "500KiB" },
      channels: [{ name: "here", provider: "embedded" }],
    },
  });
  const form = new FormData();
  form.append("file", new File([new Uint8Array(recording)], "long.wav"));
  form.append("model", "embedded/whisper-base");
  form.append("response_format", "verbose_json");
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: form,
  });
  const answer = (await response.json()) as Verbose;
  expect(answer).toMatchObject({ language: "english", duration: samples.length / toneRate });
  expect(errorRate(wordErrors(Array.from({ length: times }, () => said).join(" "), answer.text))).toBeLessThan(0.1);
  const starts = answer.segments.map(({ start }) => start);
  expect(starts).toEqual(starts.toSorted((a, b) => a - b));
  // Each repetition begins a second after the one before has ended.
  for (let index = 0; index < times; index++) {
    const begins = (index * each) / toneRate;
    expect(starts.some((start) => Math.abs(start - begins) < 2)).toBe(true);
  }
  await eventually("a line for each part", () => gateway.logs.filter((line) => line["event"] === "part").length >= times);
});

interface Verbose {
  readonly text: string;
  readonly segments: readonly { readonly start: number; readonly end: number }[];
}

/** The same samples under the shortest header. */
function plainWav(wav: Uint8Array): Uint8Array {
  const at = Buffer.from(wav).indexOf("data");
  const bytes = wav.slice(at + 8);
  return wavFile(new Int16Array(bytes.buffer, 0, bytes.length >> 1), toneRate);
}
