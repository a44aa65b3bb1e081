import fc from "fast-check";

/**
 * How many inputs an expensive property is tried with: the number given, times SLUICE_TEST_RUNS. That is 1 unless said otherwise, so
 * that a developer waits for seconds; CI sets 2 and tries more.
 */
export function numRuns(everyday: number): number {
  return Math.max(1, Math.round(everyday * factor));
}

const wanted = process.env["SLUICE_TEST_RUNS"] ?? "1";
const factor = Number(wanted);
if (!(factor > 0 && factor <= 10_000)) throw new Error(`SLUICE_TEST_RUNS must be a number above 0, not ${JSON.stringify(wanted)}`);

/** Code points below the surrogates, which are none themselves, and all that can be above them. */
const belowSurrogates = 0xd800;
const surrogates = 0x800;
const codePoints = 0x11_0000 - surrogates;

/** The unit "binary" of fast-check, which finds a character's number with a table of all characters that takes it a second to build. */
const character = fc
  .nat({ max: codePoints - 1 })
  .map((index) => String.fromCodePoint(index < belowSurrogates ? index : index + surrogates), indexOfCharacter);

function indexOfCharacter(value: unknown): number {
  const point = typeof value === "string" ? value.codePointAt(0) : undefined;
  if (point === undefined || String.fromCodePoint(point) !== value || (point >= belowSurrogates && point < belowSurrogates + surrogates))
    throw new Error("this is not one character");
  return point < belowSurrogates ? point : point - surrogates;
}

/** Text of any characters that Unicode has, and of those that make trouble as names, such as `__proto__`. */
export function anyText(lengths: { readonly minLength?: number; readonly maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ ...lengths, unit: character });
}
