// Needs: models. It runs the models of this machine.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { addedModels } from "../../packages/embedded/src/addons/installed.ts";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import { serveEngine, type EngineServer } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeSpeechEngine } from "../../packages/embedded/src/server/speech-engine.ts";
import { loadGuesser } from "../../packages/embedded/src/speech/kokoro/guesser.ts";
import { readLexicon, makePronounce } from "../../packages/embedded/src/speech/kokoro/pronounce.ts";
import { spokenEnglish } from "../../packages/embedded/src/speech/kokoro/spoken-english.ts";
import { readVocabulary, tokensOf } from "../../packages/embedded/src/speech/kokoro/tokens.ts";
import { defaultWeights, loadWhisper, type Whisper } from "../../packages/embedded/src/transcription/whisper.ts";

// Kokoro is slow, and slower beside other work.
setDefaultTimeout(600_000);

/** Where the add-on may have been added; these tests never fetch it. */
const added = [resolve(import.meta.dir, "../../data"), process.env["SLUICE_TEST_DATA_DIR"] ?? ""]
  .filter((path) => path !== "")
  .flatMap((path) => addedModels(path))
  .find(({ upstream }) => upstream === "kokoro");

describe.skipIf(added === undefined)("Kokoro, where it was added", () => {
  const directory = mkdtempSync(join(tmpdir(), "kokoro-weights-"));
  const socket = join(directory, "engine.sock");
  let server: EngineServer;
  let whisper: Whisper;
  beforeAll(async () => {
    server = serveEngine(
      makeSpeechEngine(() => [added!]),
      { socket, idleMs: 3_600_000, onIdle: () => {} },
    );
    whisper = await loadWhisper(defaultWeights());
  });
  afterAll(async () => {
    await server?.stop();
    await whisper?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  async function spoken(input: string, voice = "af_heart", speed = 1): Promise<Float32Array> {
    const body = JSON.stringify({ model: "kokoro", voice, input, speed, response_format: "wav" });
    const response = await fetch("http://engine/v1/audio/speech", { method: "POST", body, unix: socket });
    expect(response.status).toBe(200);
    return (await decodeFile(await response.bytes(), { sampleRate: 16_000 })).samples;
  }

  async function heard(samples: Float32Array): Promise<string> {
    const { text } = await whisper.transcribe(samples, { language: "en", task: "transcribe", words: false, prompt: null, temperature: 0 });
    return words(text).join(" ");
  }

  const words = (text: string): readonly string[] =>
    spokenEnglish(text, "american")
      .toLowerCase()
      .match(/[a-z']+/g) ?? [];

  test.each([
    ["af_heart", "Glue the sheet to the dark blue background."],
    ["am_michael", "Doctor Thompson paid $1,234.50 for 42 chairs."],
    ["bf_emma", "Could you tell me where the nearest train station is?"],
  ])("%s is understood: %p", async (voice, text) => {
    expect(await heard(await spoken(text, voice))).toBe(words(text).join(" "));
  });

  test("takes less time at a higher speed, and pauses between its sentences", async () => {
    const text = "One thing. Another thing.";
    const usual = await spoken(text);
    const quick = await spoken(text, "af_heart", 2);
    expect(quick.length / usual.length).toBeGreaterThan(0.4);
    expect(quick.length / usual.length).toBeLessThan(0.75);
    const longest = Array.from(usual, (sample) => (Math.abs(sample) < 0.02 ? "_" : "^"))
      .join("")
      .split(/\^+/)
      .reduce((most, run) => Math.max(most, run.length), 0);
    expect(longest / 16_000).toBeGreaterThan(0.2);
  });

  test("knows each phoneme of its dictionary and its rules, in both accents", async () => {
    const text = (path: string): Promise<string> => Bun.file(join(added!.directory, path)).text();
    const lexicon = readLexicon(await text("headtts/en-us.txt"));
    const vocabulary = readVocabulary(await text("tokenizer.json"));
    const pronounce = makePronounce(lexicon, loadGuesser(added!.directory));
    const invented = ["zettabyte", "kubectl", "unfathomably", "gronkify", "Krzysztof", "Xiangtan", "smørrebrod", "McGonagall's"];
    const sample = [...lexicon.keys()].filter((word, index) => index % 25 === 0 && /^[A-Z]+$/.test(word));
    expect(sample.length).toBeGreaterThan(4000);
    for (const word of [...sample.map((name) => name.toLowerCase()), ...invented]) {
      for (const accent of ["american", "british"] as const) {
        const phonemes = pronounce(word, accent);
        expect(tokensOf(phonemes, vocabulary).length, `${word} is ${phonemes}`).toBe(phonemes.length);
        expect(phonemes.length).toBeGreaterThan(1);
      }
    }
  });
});
