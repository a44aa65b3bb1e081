import { expect, test } from "bun:test";
import fc from "fast-check";
import { languageCode, languageName, languages } from "../../../src/operations/transcription/languages.ts";

test("there are the 99 languages of the first multilingual models and the one that came later", () => {
  expect(languages.length).toBe(100);
  for (const key of ["code", "threeLetters", "name"] as const) expect(new Set(languages.map((each) => each[key])).size).toBe(100);
  for (const { code, threeLetters } of languages) {
    expect(code).toMatch(/^[a-z]{2,3}$/);
    expect(threeLetters).toMatch(/^[a-z]{3}$/);
  }
});

test("a language is known by its code, its name and its code of three letters, in any case and with any region", () => {
  const spelling = fc.constantFrom(
    (text: string) => text,
    (text: string) => text.toUpperCase(),
    (text: string) => ` ${text[0]!.toUpperCase()}${text.slice(1)} `,
  );
  fc.assert(
    fc.property(fc.constantFrom(...languages), spelling, fc.constantFrom("-US", "_br", "-Hans-CN", ""), (language, spelled, region) => {
      expect(languageCode(spelled(language.name))).toBe(language.code);
      expect(languageCode(spelled(language.code + region))).toBe(language.code);
      expect(languageCode(spelled(language.threeLetters + region))).toBe(language.code);
      expect(languageName(language.code)).toBe(language.name);
    }),
  );
});

test.each([
  ["Mandarin", "zh"],
  ["castilian", "es"],
  ["Haitian Creole", "ht"],
  ["haitian", "ht"],
  ["burmese", "my"],
  ["moldovan", "ro"],
  ["jv", "jw"],
  ["jav", "jw"],
  ["nb-NO", "no"],
  ["cantonese", "yue"],
])("%s is %s", (said, code) => {
  expect(languageCode(said)).toBe(code);
});

test("an unknown language is null, and one without a name is called by its code", () => {
  for (const text of ["", " ", "-", "klingon", "english-US", "xx", "xx-US", "constructor", "__proto__", "e".repeat(1e6)]) {
    expect(languageCode(text)).toBeNull();
  }
  expect(languageName("xx")).toBe("xx");
});

test("docs/audio.md lists every language by code and name", async () => {
  const page = (await Bun.file(new URL("../../../docs/audio.md", import.meta.url)).text()).replaceAll("\n", " ");
  expect(languages.filter(({ code, name }) => !page.includes(`${code} ${name}`))).toEqual([]);
});
