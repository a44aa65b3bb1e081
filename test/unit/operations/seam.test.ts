import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { endOf, ContinuationSeam } from "../../../src/operations/chat/resume.ts";

/** What the client sees of a second answer that comes in these pieces. */
function joined(delivered: string, expects: "continues" | "repeats", pieces: readonly string[]): string | "differs" {
  const seam = new ContinuationSeam(delivered, expects);
  let fresh = "";
  for (const piece of pieces) {
    const more = seam.push(piece);
    if (more === "differs") return "differs";
    fresh += more;
  }
  const held = seam.close();
  return held === "differs" ? "differs" : fresh + held;
}

/** A text in pieces, cut at places that some numbers name. */
function cutAt(text: string, cuts: readonly number[]): readonly string[] {
  const places = [...new Set([0, ...cuts.map((cut) => cut % (text.length + 1)), text.length])].toSorted((a, b) => a - b);
  return places.slice(1).map((place, at) => text.slice(places[at], place));
}

const story =
  "Once upon a time there was a small gateway at the edge of a large network.\n\nIt let every call through, and when one of them broke off in the middle of a sentence, another channel went on with it.";

const words = fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { minLength: 12, maxLength: 60 }).map((list) => list.join(" "));
const cuts = fc.array(fc.nat(), { maxLength: 12 });

describe("a model that was asked to repeat the end of what the client has", () => {
  test("is joined where that ends, however its answer is cut into pieces", () => {
    fc.assert(
      fc.property(words, fc.nat(), cuts, (text, at, pieces) => {
        const delivered = text.slice(0, 1 + (at % text.length));
        const rest = text.slice(delivered.trimEnd().length);
        expect(delivered + joined(delivered, "repeats", cutAt(endOf(delivered) + rest, pieces))).toBe(text);
      }),
    );
  });

  test.each([
    ["line breaks for spaces", (end: string) => end.replaceAll(" ", "\n")],
    ["no spaces at all", (end: string) => end.replaceAll(" ", "")],
    ["more spaces, before it as well", (end: string) => `\n ${end.replaceAll(" ", "  ")}`],
    ["a little more than it was asked for", (end: string) => `network. It let every call ${end}`],
    ["all of it", () => story.slice(0, 140)],
    ["a little less, from the next word on", (end: string) => end.slice(end.indexOf(" ") + 1)],
  ])("may repeat it with %s", (_, repeated) => {
    const delivered = story.slice(0, 140);
    expect(delivered + joined(delivered, "repeats", cutAt(repeated(endOf(delivered)) + story.slice(140), [3, 20, 41, 90]))).toBe(story);
  });

  test.each([
    ["goes on without repeating anything", story.slice(140)],
    ["says something before it", `Sure! ${endOf(story.slice(0, 140))}${story.slice(140)}`],
    ["says something else", "I cannot do that."],
    ["repeats something like it", `${endOf(story.slice(0, 140)).replace("e", "é")}${story.slice(140)}`],
    ["ends while it repeats", endOf(story.slice(0, 140)).slice(0, -3)],
    ["says nothing", ""],
  ])("is not joined if it %s", (_, answer) => {
    expect(joined(story.slice(0, 140), "repeats", cutAt(answer, [5, 30]))).toBe("differs");
  });

  test("is asked for forty characters from the beginning of a word, for more where most are spaces, and for all of a short text", () => {
    expect(endOf(story.slice(0, 140))).toBe("through, and when one of them broke off in the");
    expect(endOf("short ")).toBe("short");
    expect(endOf(`${"cell ".repeat(20)}|${" ".repeat(60)}|`).replace(/\s+/g, "").length).toBeGreaterThanOrEqual(20);
    expect(endOf("👩‍🔧".repeat(40)).isWellFormed()).toBe(true);
  });
});

describe("a model that was given what the client has", () => {
  test("goes on, and what it repeats of eight characters or more is left out", () => {
    fc.assert(
      fc.property(words, fc.nat(), fc.integer({ min: 8, max: 80 }), cuts, (text, at, overlap, pieces) => {
        const delivered = text.slice(0, 1 + (at % text.length)).trimEnd();
        const repeated = delivered.slice(-Math.min(overlap, delivered.length));
        const seen = delivered + joined(delivered, "continues", cutAt(repeated + text.slice(delivered.length), pieces));
        // A text that says the same twice may have more than one seam; white space makes no difference there.
        const [all, end] = [delivered, repeated].map((part) => part.replaceAll(" ", "")) as [string, string];
        if (all.lastIndexOf(end) === all.indexOf(end)) expect(seen).toBe(text);
      }),
    );
  });

  test.each(["I", "Hi", "Sure", "Sure, I", "word0 w"])("does not repeat fewer than eight characters either: %p", (delivered) => {
    expect(joined(delivered, "continues", [delivered, " would say so."])).toBe(" would say so.");
    expect(joined(delivered, "continues", cutAt(`${delivered} would say so.`, [1, 2]))).toBe(" would say so.");
    expect(joined(delivered, "continues", [" would say so."])).toBe(" would say so.");
  });

  test("does not repeat the space that the client has already", () => {
    expect(joined("One two ", "continues", [" three"])).toBe("three");
    expect(joined("One two ", "continues", ["three"])).toBe("three");
    expect(joined("One two\n\n", "continues", ["\n", "\nThree"])).toBe("Three");
    expect(joined("One two ", "continues", ["\n\nThree"])).toBe("\n\nThree");
  });

  test("is not held back by a coincidence of a few characters", () => {
    expect(joined("a longer text about it", "continues", ["it seems"])).toBe("it seems");
  });
});

test("where the client has no text yet, all of the second answer is new", () => {
  for (const expects of ["continues", "repeats"] as const) expect(joined("", expects, ["all", " of it"])).toBe("all of it");
});
