// Needs: models. It runs the models of this machine.
import { afterAll, afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { addedModels, manifest, type AddedModel, addonFolder, manifestName } from "../../packages/embedded/src/addons/installed.ts";
import { addons } from "../../packages/embedded/src/addons/table.ts";
import { catalog } from "../../packages/embedded/src/catalog.ts";
import { serveEngine } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeSpeechEngine, type Speaker } from "../../packages/embedded/src/server/speech-engine.ts";
import { british } from "../../packages/embedded/src/speech/kokoro/british.ts";
import type { Guesser } from "../../packages/embedded/src/speech/kokoro/guesser.ts";
import { readLexicon, makePronounce } from "../../packages/embedded/src/speech/kokoro/pronounce.ts";
import { withShortPauses } from "../../packages/embedded/src/speech/kokoro/pauses.ts";
import { american, fromIpa, stressed, withS } from "../../packages/embedded/src/speech/kokoro/phonemes.ts";
import { spokenEnglish } from "../../packages/embedded/src/speech/kokoro/spoken-english.ts";
import { cutPhonemes, readVocabulary, tokensOf } from "../../packages/embedded/src/speech/kokoro/tokens.ts";
import { accentOf, voicesIn } from "../../packages/embedded/src/speech/kokoro/kokoro-addon.ts";
import { spokenText } from "../../packages/embedded/src/speech/spoken-text.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const kokoro = addons.find(({ name }) => name === "kokoro")!;

describe("a text", () => {
  test.each([
    ["Dr. Smith met Mr Jones on Main St. He left.", "Doctor Smith met Mister Jones on Main Street. He left."],
    ["St. John paid $1,234.50.", "Saint John paid one thousand two hundred thirty four dollars and fifty cents."],
    ["It costs €5.50, £3.01 or $5 million.", "It costs five euros and fifty cents, three pounds and one penny or five million dollars."],
    ["On March 3rd, 2024 at 5:30 p.m.", "On March third, twenty twenty four at five thirty PM"],
    ["By 2024-03-05T17:00 or 3/14/1999", "By March fifth, twenty twenty four seventeen hundred or March fourteenth, nineteen ninety nine"],
    ["In 1984, 2005 and the 1990s", "In nineteen eighty four, two thousand five and the nineteen nineties"],
    ["12.5% of 1,000,005", "twelve point five percent of one million five"],
    ["1st 2nd 23rd 12th 20th", "first second twenty third twelfth twentieth"],
    ["1/2 cup, 3/4 mile, 10-20 people, -5", "one half cup, three quarters mile, ten to twenty people, minus five"],
    ["60 mph, 5GB, 1 km, 20 °C", "sixty miles per hour, five gigabytes, one kilometer, twenty degrees Celsius"],
    ["Call (555) 123-4567", "Call five five five, one two three, four five six seven"],
    ["007 and 12345678901234567890", `zero zero seven and ${"one two three four five six seven eight nine zero ".repeat(2).trim()}`],
    ["v1.2.3 on 10.0.0.1", "v one point two point three on ten dot zero dot zero dot one"],
    ["See https://www.example.com/a-b.", "See www dot example dot com slash a dash b."],
    ["Mail bob@example.org or open main.ts", "Mail bob at example dot org or open main dot ts"],
    ["e.g. this, i.e. that, etc. And the U.S. too", "for example, this, that is, that, et cetera. And the US too"],
    ["Henry VIII and World War II, not I", "Henry the eighth and World War two, not I"],
    ["B2B, MP3, C# and/or C++", "B two B, MP three, C sharp and or C plus plus"],
    ["**bold** `code` [link] ~x~", "bold code link x"],
    ["I have 2 cats. 3 dogs.\n\nThe end", "I have two cats. Three dogs.\n\nThe end"],
    ["don't stop, well-known, it's 10:00", "don't stop, well-known, it's ten o'clock"],
  ])("is written out as it is said: %p", (source, expected) => {
    const plain = spokenText(source);
    expect(plain.kind === "speakable" ? spokenEnglish(plain.text, "american") : plain.kind).toBe(expected);
  });

  test("is spoken the British way with a British voice", () => {
    expect(spokenEnglish("105 people, 3/4/2024", "british")).toBe("one hundred and five people, the third of April twenty twenty four");
    expect(spokenEnglish("105 people, 3/4/2024", "american")).toBe("one hundred five people, March fourth, twenty twenty four");
  });

  test("of any kind becomes letters, spaces and punctuation, and grows only by a bounded factor", () => {
    const text = fc.oneof(
      fc.string({ unit: "grapheme-ascii", maxLength: 300 }),
      fc.string({ unit: fc.constantFrom(..."0123456789.,:/-$%# apmSt'"), maxLength: 300 }),
    );
    fc.assert(
      fc.property(text, fc.constantFrom("american", "british"), (source, accent) => {
        const written = spokenEnglish(source, accent);
        expect(written).toMatch(/^[A-Za-z'\-.,;:!?"()\n ]*$/);
        expect(written.length).toBeLessThanOrEqual(source.length * 20 + 20);
      }),
      { numRuns: 300 },
    );
  });

  test("that is long and hostile is converted quickly", () => {
    const hostile = ["1", "1.", "1,", "1/", "1:", "-1", "$", "a.", "A.", "a/", "1-", "St. ", "www.", " ", "'", "5 m", "May 1 "];
    const beganMs = performance.now();
    for (const piece of hostile) spokenEnglish(piece.repeat(4096 / piece.length), "american");
    expect(performance.now() - beganMs).toBeLessThan(slowed(5000));
  });
});

describe("phonemes", () => {
  test.each([
    ["ˈwɝɫd", "wˈɜɹld"],
    ["həˈɫoʊ", "həlˈO"],
    ["ˈdʒeɪˌsʌn", "ʤˈAsˌʌn"],
    ["d͡ʒɔɪ", "ʤY"],
    ["tʃaʊ", "ʧW"],
    ["ˈbʌtn̩", "bˈʌtᵊn"],
    ["ˈkʌlɚ", "kˈʌləɹ"],
    ["aɪ ˈ", "I"],
    ["kæfˈeɪː", "kæfˈA"],
  ])("of a dictionary are put into Kokoro's letters: %p", (ipa, expected) => {
    expect(fromIpa(ipa)).toBe(expected);
  });

  test.each([
    ["wˈɔtɜɹ", "water", "wˈɔTəɹ"],
    ["lˈɪtəl", "little", "lˈɪTᵊl"],
    ["bˈʌtən", "button", "bˈʌtᵊn"],
    ["ətˈæk", "attack", "ətˈæk"],
    ["bˈɑksəz", "boxes", "bˈɑksᵻz"],
    ["wˈɔntɪd", "wanted", "wˈɔntᵻd"],
    ["bˈɜɹd", "bird", "bˈɜɹd"],
  ])("of an American are finished: %p", (plain, word, expected) => {
    expect(american(plain, word)).toBe(expected);
  });

  test.each([
    ["kˈɑɹ", "car", "kˈɑː"],
    ["bˈɜɹd", "bird", "bˈɜːd"],
    ["wˈɔTəɹ", "water", "wˈɔːtə"],
    ["hˈɑt", "hot", "hˈɒt"],
    ["fˈɑðəɹ", "father", "fˈɑːðə"],
    ["bˈæθ", "bath", "bˈɑːθ"],
    ["tɹˈæp", "trap", "tɹˈap"],
    ["ɡˈO", "go", "ɡˈQ"],
    ["nˈu", "new", "njˈuː"],
    ["nˈun", "noon", "nˈuːn"],
    ["hˈɛɹ", "hair", "hˈɛː"],
    ["nˈɪɹ", "near", "nˈɪə"],
    ["vˈɛɹi", "very", "vˈɛɹi"],
    ["stˈɔɹi", "story", "stˈɔːɹi"],
  ])("become British: %p", (sound, word, expected) => {
    expect(british(sound, word)).toBe(expected);
  });

  test("of a word always have a stress, and its plural ends as it sounds", () => {
    expect(stressed("kæt")).toBe("kˈæt");
    expect(stressed("ˌɛf")).toBe("ˈɛf");
    expect(["kˈæt", "dˈɔɡ", "bˈʌs", "ʤˈʌʤ"].map(withS)).toEqual(["kˈæts", "dˈɔɡz", "bˈʌsᵻz", "ʤˈʌʤᵻz"]);
  });

  test("that are too many are split between words, at a pause if there is one, and none is lost", () => {
    expect(cutPhonemes("ˈæ bˈɛ, sˈi dˈi", 9)).toEqual(["ˈæ bˈɛ,", "sˈi dˈi"]);
    const text = fc.string({ unit: fc.constantFrom(..."ˈæbd ,."), maxLength: 600 });
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 100 }), (phonemes, most) => {
        const pieces = cutPhonemes(phonemes, most);
        expect(pieces.join("").replaceAll(" ", "")).toBe(phonemes.replaceAll(" ", ""));
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(most);
      }),
    );
  });

  test("that the vocabulary does not have are left out", () => {
    const vocabulary = readVocabulary(JSON.stringify({ model: { vocab: { a: 43, ˈ: 156 } } }));
    expect(tokensOf("ˈa☃a", vocabulary)).toEqual([156, 43, 43]);
  });
});

describe("a sentence", () => {
  const lexicon = readLexicon(
    [
      ";;; a notice",
      "CAT\tkˈæt",
      "APPLE\tˈæpəl\tother",
      "THE\tðə\tði",
      "NASA\tnˈæsə",
      "US\tˈʌs",
      "WELL\twˈɛl",
      "KNOWN\tnˈOn",
      "RECORD\tɹəkˈɔɹd",
    ].join("\n"),
  );
  const guesser: Guesser = {
    guess: (word) => (word === "blick" ? "ˈbɫɪk" : word === "grr" ? "ɡɹ" : null),
    decide: (word, before) => (word === "record" ? (before === "to" ? "ɹɪˈkɔɹd" : "ˈɹɛkɝd") : null),
  };
  const pronounce = makePronounce(lexicon, guesser);

  test.each([
    ["The cat and the apple.", "ðə kˈæt ænd ði ˈæpᵊl."],
    ["cat", "kˈæt."],
    ["The cat can. I can record.", "ðə kˈæt kˈæn. I kæn ɹˈɛkəɹd."],
    ["to record a record!", "tə ɹɪkˈɔɹd ə ɹˈɛkəɹd!"],
    ['"Cat," (the cat)...', "“kˈæt,” (ðə kˈæt)…"],
    ["blick's blick", "blˈɪks blˈɪk."],
    ["NASA, the US, XYZ; it is us", "nˈæsə, ðə jˌuˈɛs, ˌɛkswˌIzˈi; ɪt ɪz ʌs."],
    ["well-known", "wˈɛl nˈOn."],
    ["A cat's 'cat'?", "ə kˈæts kˈæt?"],
    ["grr qzx", "ʤˌiˌɑɹˈɑɹ kjˌuzˌiˈɛks."],
    ["I use the use of", "I jˈuz ðə jˈus ˈʌv."],
  ])("is pronounced by dictionary, by rule, or letter by letter: %p", (text, expected) => {
    expect(pronounce(text, "american")).toBe(expected);
  });

  test("is pronounced differently by a British voice", () => {
    expect(pronounce("Z was a tomato.", "british")).toBe("zˈɛd wɒz ə təmˈɑːtQ.");
  });

  test("of any words has only phonemes that the model knows", () => {
    const text = fc.string({ unit: fc.constantFrom(..."abcdefghij klmnopqrstuvwxyz '-.,\"()!?ABZ"), maxLength: 200 });
    fc.assert(
      fc.property(text, fc.constantFrom("american", "british"), (source, accent) => {
        expect(pronounce(source, accent)).toMatch(/^[AIOQTWYabdfhijklmnpstuvwzæðŋɑɒɔəɛɜɡɪɹʃʊʌʒʤʧθᵊᵻːˈˌ;:,.!?…“”"() ]*$/u);
      }),
    );
  });
});

describe("the silence around a piece", () => {
  const sound = Float32Array.from({ length: 24_000 * 3 }, (_, index) => (index >= 24_000 && index < 48_000 ? 0.5 : 0));

  test("is shortened to a pause, which is shorter inside a sentence than after it", () => {
    expect(withShortPauses(sound, true).length / 24_000).toBeCloseTo(0.1 + 1 + 0.32, 3);
    expect(withShortPauses(sound, false).length / 24_000).toBeCloseTo(0.1 + 1 + 0.12, 3);
  });

  test("is unchanged if there is nothing else, or less of it", () => {
    expect(withShortPauses(new Float32Array(10), true).length).toBe(10);
    expect(withShortPauses(Float32Array.of(0, 0.5, 0), true)).toEqual(Float32Array.of(0, 0.5, 0));
  });
});

test("the voices of the add-on are American and British, the default first", () => {
  const voices = voicesIn(kokoro.files);
  expect(voices[0]).toBe("af_heart");
  for (const voice of ["af_bella", "am_michael", "bf_emma", "bm_george"]) expect(voices).toContain(voice);
  expect(voices.every((voice) => /^[ab][fm]_[a-z]+$/.test(voice))).toBe(true);
  expect(voices.filter((voice) => accentOf(voice) === "british").length).toBe(8);
  expect(voicesIn(catalog.find(({ upstream }) => upstream === "flite")!.files)).toEqual([]);
});

const directory = mkdtempSync(join(tmpdir(), "kokoro-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

type Ask = (body: object, signal?: AbortSignal) => Promise<Response>;
let sockets = 0;

function serve(engine: ReturnType<typeof makeSpeechEngine>): Ask {
  const socket = join(directory, `${sockets++}.sock`);
  const server = serveEngine(engine, { socket, idleMs: 600_000, onIdle: () => {} });
  endings.push(() => server.stop());
  return (body, signal) =>
    fetch("http://engine/v1/audio/speech", {
      method: "POST",
      body: JSON.stringify(body),
      unix: socket,
      ...(signal === undefined ? {} : { signal }),
    });
}

async function refused(response: Response): Promise<readonly [status: number, code: unknown, message: string]> {
  const { error } = (await response.json()) as { readonly error: { readonly code: unknown; readonly message: string } };
  return [response.status, error.code, error.message];
}

const builtIn = catalog.filter(({ operation }) => operation === "speech");

describe("the speech engine with an added model", () => {
  const events: string[] = [];
  let ask: Ask;
  beforeEach(() => {
    events.length = 0;
    const folder = mkdtempSync(join(directory, "voice-"));
    mkdirSync(join(folder, "voices"));
    writeFileSync(join(folder, "voices", "af_test.bin"), "voice");
    const sha256 = new Bun.CryptoHasher("sha256").update("voice").digest("hex");
    const files = [{ path: "voices/af_test.bin", bytes: 5, sha256 }];
    const added: AddedModel = {
      id: "embedded/other",
      upstream: "other",
      operation: "speech",
      description: "",
      package: "",
      files,
      licence: "",
      directory: folder,
    };
    const load = async ({ upstream }: { readonly upstream: string }): Promise<Speaker> => {
      events.push(`load ${upstream}`);
      return {
        pieces: (text) => text.split(" "),
        speak: async (piece) => {
          events.push(piece);
          await Bun.sleep(1);
          return { samples: new Float32Array(240).fill(0.5), sampleRate: 24_000 };
        },
        close: async () => void events.push(`close ${upstream}`),
      };
    };
    ask = serve(makeSpeechEngine(() => [...builtIn, added], load));
  });
  const asked = { model: "other", voice: "af_test", input: "one two three", response_format: "pcm" };

  test("speaks only with the voices that the model has files for", async () => {
    expect((await (await ask(asked)).bytes()).length).toBe(3 * 240 * 2);
    expect(await refused(await ask({ ...asked, voice: "rms" }))).toEqual([
      400,
      "invalid_value",
      "This voice is not known. The voices are af_test.",
    ]);
    expect((await refused(await ask({ ...asked, model: "flite" })))[0]).toBe(400);
  });

  test("keeps one model in memory", async () => {
    for (const model of ["other", "flite", "flite", "other"]) {
      await (await ask({ ...asked, model, voice: model === "flite" ? "rms" : "af_test", input: "a" })).bytes();
    }
    expect(events.filter((event) => event !== "a")).toEqual(["load other", "close other", "load flite", "close flite", "load other"]);
  });

  test("supports the same formats and rejects the same requests as with the built-in model", async () => {
    const wav = await (await ask({ ...asked, response_format: "wav" })).bytes();
    expect(new TextDecoder().decode(wav.subarray(0, 4))).toBe("RIFF");
    expect((await refused(await ask({ ...asked, response_format: "mp3" })))[1]).toBe("unsupported_value");
    expect((await refused(await ask({ ...asked, input: "Привет" })))[1]).toBe("unsupported_language");
    expect((await refused(await ask({ ...asked, speed: 5 })))[1]).toBe("invalid_value");
    expect((await refused(await ask({ ...asked, instructions: "whisper" })))[1]).toBe("unsupported_parameter");
  });

  test("stops between two pieces when its client leaves", async () => {
    const leaving = new AbortController();
    const response = await ask({ ...asked, input: "on ".repeat(1300).trim() }, leaving.signal);
    leaving.abort();
    await response.bytes().catch(() => null);
    // Its turn comes when the first is over: had that gone on, it would have said all of its words.
    expect((await ask({ ...asked, input: "a" })).status).toBe(200);
    expect(events.filter((event) => event === "on").length).toBeLessThan(1300);
  });
});

test("a Kokoro with other files is rejected, and Flite keeps working", async () => {
  const dataDir = mkdtempSync(join(directory, "data-"));
  for (const { path, bytes } of kokoro.files) {
    const file = join(addonFolder(dataDir, "kokoro"), path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    truncateSync(file, bytes);
  }
  writeFileSync(join(addonFolder(dataDir, "kokoro"), manifestName), manifest(kokoro));
  const ask = serve(makeSpeechEngine(() => [...builtIn, ...addedModels(dataDir)]));
  const [status, code, message] = await refused(await ask({ model: "kokoro", voice: "af_heart", input: "Hello.", response_format: "pcm" }));
  expect([status, code]).toEqual([503, "engine_unavailable"]);
  expect(message).toContain("Run sluice models remove kokoro, and add it again.");
  expect((await ask({ model: "flite", voice: "rms", input: "Hello.", response_format: "pcm" })).status).toBe(200);
});
