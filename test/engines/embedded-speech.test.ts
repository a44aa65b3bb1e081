// Needs: models. It runs the models of this machine.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { catalog, weightsDirectory } from "../../packages/embedded/src/catalog.ts";
import { loadFlite } from "../../packages/embedded/src/speech/flite.ts";
import { pieceCharactersMax, sentences } from "../../packages/embedded/src/speech/sentences.ts";
import { speak } from "../../packages/embedded/src/speech/speak.ts";
import { spokenText } from "../../packages/embedded/src/speech/spoken-text.ts";
import { anyText } from "../support/properties.ts";

setDefaultTimeout(60_000);

const model = catalog.find(({ operation }) => operation === "speech")!;
const flite = await loadFlite(weightsDirectory(model)!);
const never = new AbortController().signal;
const rate = 24_000;

function spoken(text: string, voice = "slt", speed = 1): Promise<Float32Array[]> {
  return Array.fromAsync(speak(flite, sentences(text), { voice, speed }, never));
}

function seconds(pieces: readonly Float32Array[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0) / rate;
}

describe("a voice", () => {
  test.each(model.voices ?? [])("%s speaks for a plausible time, audibly, at a plausible loudness", async (voice) => {
    const pieces = await spoken("The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background.", voice);
    expect(seconds(pieces)).toBeGreaterThan(3);
    expect(seconds(pieces)).toBeLessThan(9);
    const samples = pieces.flatMap((piece) => [...piece]);
    const loudness = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
    expect(loudness).toBeGreaterThan(0.01);
    expect(loudness).toBeLessThan(0.4);
    expect(Math.max(...pieces.map((piece) => piece.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)))).toBeLessThan(1.5);
  });

  test("produces the same bytes for the same text each time", async () => {
    expect(await spoken("Twice the same.")).toEqual(await spoken("Twice the same."));
  });

  test.each([0.25, 0.5, 2, 4])("at a speed of %d takes the inverse of the time", async (speed) => {
    const text = "The quick brown fox jumps over the lazy dog.";
    const usual = seconds(await spoken(text));
    const ratio = seconds(await spoken(text, "slt", speed)) / usual;
    expect(ratio * speed).toBeGreaterThan(0.85);
    expect(ratio * speed).toBeLessThan(1.2);
  });

  test("sends audio before the rest of the text was spoken", async () => {
    let spokenPieces = 0;
    const counting = {
      speak: (...[piece, voice, speed]: Parameters<typeof flite.speak>) => {
        spokenPieces++;
        return flite.speak(piece, voice, speed);
      },
    };
    const speech = speak(counting, sentences("One thing. Another thing. A third thing."), { voice: "kal16", speed: 1 }, never);
    const first = await speech.next();
    expect(first.done).toBe(false);
    expect(spokenPieces).toBe(1);
    await speech.return();
    expect(spokenPieces).toBe(1);
  });

  test("stops between two sentences when it is aborted", async () => {
    const gone = new AbortController();
    const speech = speak(flite, sentences("One thing. Another thing."), { voice: "kal16", speed: 1 }, gone.signal);
    await speech.next();
    gone.abort();
    expect(speech.next()).rejects.toThrow();
  });

  test("joins its sentences without a click", async () => {
    const pieces = await spoken("One thing. Another thing. A third thing.", "rms");
    expect(pieces.length).toBeGreaterThan(3);
    const whole = Float32Array.from(pieces.flatMap((piece) => [...piece]));
    let at = 0;
    for (const piece of pieces.slice(0, -2)) {
      at += piece.length;
      // The resampler is behind by its own delay; the seam lies somewhere in these ten milliseconds.
      for (let index = at - 120; index < at + 120; index++) expect(Math.abs(whole[index + 1]! - whole[index]!)).toBeLessThan(0.05);
    }
  });

  test("survives any text in plain letters", async () => {
    const hostile = [
      "a".repeat(3 * pieceCharactersMax),
      "1".repeat(2 * pieceCharactersMax),
      "$".repeat(200),
      "<speak><break/></speak>",
      "-o /etc/passwd",
      "%s%n %d",
      "\\",
      "'\"'",
      "(((",
      "a.b.c.d.e",
    ];
    for (const text of hostile) {
      const { length } = await spoken(text, "kal");
      expect(length).toBeGreaterThanOrEqual(1);
    }
  });

  test("survives random text too", async () => {
    const text = fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 300 });
    await fc.assert(
      fc.asyncProperty(text, async (source) => {
        const plain = spokenText(source);
        if (plain.kind === "speakable") expect(seconds(await spoken(plain.text, "kal"))).toBeGreaterThan(0);
      }),
      { numRuns: 40 },
    );
  });
});

describe("a text", () => {
  test.each([
    ["Dr. Smith met Mrs. Jones. They talked.", ["Dr. Smith met Mrs. Jones.", "They talked."]],
    ["It is 3.5 miles. J. R. R. Tolkien wrote it!", ["It is 3.5 miles.", "J. R. R. Tolkien wrote it!"]],
    ['"Really?" he said. "Yes."', ['"Really?" he said.', '"Yes."']],
    ["A title\n\nA paragraph\nof two lines.", ["A title", "A paragraph of two lines."]],
    ["", []],
    [" \n\n ", []],
  ])("is cut where its sentences end: %p", (text, expected) => {
    expect(sentences(text)).toEqual(expected);
  });

  test("keeps all words when it is split, and no piece is long", () => {
    const text = fc.string({ unit: fc.constantFrom(..."ab ,.;:!?-\n'AZ1"), maxLength: 2000 });
    fc.assert(
      fc.property(text, (source) => {
        const pieces = sentences(source);
        expect(pieces.join("").replaceAll(/\s/g, "")).toBe(source.replaceAll(/\s/g, ""));
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(pieceCharactersMax);
      }),
    );
  });

  test.each([
    ["naïve café in Zürich, Łódź and Ærø", "naive cafe in Zurich, Lodz and Aero"],
    ["“Quoted” – it’s fine…", '"Quoted", it\'s fine...'],
    ["It costs €5.50 👍🏽", "It costs 5.50 euros"],
    ["Ａ fullwidth ① and π", "A fullwidth 1 and pi"],
    ["salt & pepper", "salt  and  pepper"],
    ["a\0b\u0007c", "a b c"],
    ["W X Y Z, a e i o u", "W X Y Z, a e i o u"],
    ["La La Land was filmed by Ben and Dan in Los Angeles", "La La Land was filmed by Ben and Dan in Los Angeles"],
    ["He said c'est la vie and left for the day", "He said c'est la vie and left for the day"],
  ])("in English is spoken: %p", (source, expected) => {
    expect(spokenText(source)).toEqual({ kind: "speakable", text: expected });
  });

  test.each([
    "Привет, мир",
    "你好，世界",
    "こんにちは",
    "안녕하세요",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "สวัสดี",
    "Καλημέρα",
    "The word привет means hello",
    "I have ٣ cats",
    "Guten Morgen, wie geht es Ihnen?",
    "Das ist ein schöner Tag und ich bin nicht müde.",
    "Bonjour tout le monde, vous êtes les bienvenus",
    "El perro está en la casa con los niños",
    "Il gatto è sul tavolo e non vuole che tu lo tocchi, ma anche questo è molto bello",
    "O menino não está em casa, você sabe que ele é feliz",
    "Het is een mooie dag en ik ben niet moe",
    "Tôi đang học tiếng Việt và tôi có một con mèo",
    "Jestem zmęczony i nie wiem, czy to jest dobrze, ale tak",
  ])("in another language is refused: %p", (source) => {
    expect(spokenText(source).kind).toBe("foreign");
  });

  test.each(["", "  ", "👍🎉", "...", "—"])("without anything to speak is empty: %p", (source) => {
    expect(spokenText(source)).toEqual({ kind: "empty" });
  });

  test("of any kind is classified without an exception", () => {
    fc.assert(
      fc.property(anyText({ maxLength: 400 }), (source) => {
        const plain = spokenText(source);
        if (plain.kind === "speakable") expect(plain.text).toMatch(/^[\n -~]+$/);
      }),
    );
  });
});
