import type { Accent } from "./kokoro-addon.ts";

const ones =
  "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(
    " ",
  );
const tens = " ten twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
const thousands = ["", "thousand", "million", "billion", "trillion"];
/** Longer numbers are read digit by digit. */
const cardinalDigitsMax = thousands.length * 3;

/** A whole number, given by its digits. */
export function cardinal(digits: string, accent: Accent): string {
  const plain = digits.replace(/^0+(?=\d)/, "");
  if (plain.length > cardinalDigitsMax) return spelled(digits);
  if (plain === "0") return "zero";
  const groups = plain.padStart(Math.ceil(plain.length / 3) * 3, "0").match(/\d{3}/g) ?? [];
  const words = groups.flatMap((group, index) => {
    const value = Number(group);
    if (value === 0) return [];
    const isLast = index === groups.length - 1;
    const small = belowThousand(value, accent);
    const linked = accent === "british" && isLast && index > 0 && value < 100 ? `and ${small}` : small;
    return [linked, ...(isLast ? [] : [thousands[groups.length - 1 - index] ?? ""])];
  });
  return words.join(" ");
}

function belowThousand(value: number, accent: Accent): string {
  if (value < 100) return belowHundred(value);
  const rest = value % 100;
  const hundreds = `${ones[Math.floor(value / 100)]} hundred`;
  if (rest === 0) return hundreds;
  return `${hundreds} ${accent === "british" ? "and " : ""}${belowHundred(rest)}`;
}

function belowHundred(value: number): string {
  if (value < 20) return ones[value] ?? "";
  const rest = value % 10;
  return rest === 0 ? (tens[Math.floor(value / 10)] ?? "") : `${tens[Math.floor(value / 10)]} ${ones[rest]}`;
}

/** For example, `1` is first. */
export function ordinal(digits: string, accent: Accent): string {
  return ordinalOf(cardinal(digits, accent));
}

/** Makes the last word of a number an ordinal. */
function ordinalOf(words: string): string {
  return words.replace(/\w+$/, (last) => ordinals[last] ?? (last.endsWith("y") ? `${last.slice(0, -1)}ieth` : `${last}th`));
}

const ordinals: Readonly<Record<string, string>> = {
  one: "first",
  two: "second",
  three: "third",
  five: "fifth",
  eight: "eighth",
  nine: "ninth",
  twelve: "twelfth",
};

/** A year of four digits: nineteen eighty four, two thousand five, twenty ten. */
export function year(digits: string, accent: Accent): string {
  const high = Number(digits.slice(0, 2));
  const low = Number(digits.slice(2));
  if (low === 0 && high % 10 === 0) return cardinal(digits, accent);
  if (low === 0) return `${belowHundred(high)} hundred`;
  if (high % 10 === 0 && low < 10) return cardinal(digits, accent);
  return `${belowHundred(high)} ${low < 10 ? `oh ${ones[low]}` : belowHundred(low)}`;
}

/** Digit by digit. */
export function spelled(digits: string): string {
  return Array.from(digits, (digit) => ones[Number(digit)] ?? "").join(" ");
}

/** For example, `twenty` becomes twenties. */
export function plural(words: string): string {
  return words.replace(/\w+$/, (last) =>
    last.endsWith("y") ? `${last.slice(0, -1)}ies` : /(?:s|x)$/.test(last) ? `${last}es` : `${last}s`,
  );
}

/** A number with or without decimals and commas: `1,234.5`. */
export function numeral(source: string, accent: Accent): string {
  const [whole = "", fraction] = source.replaceAll(",", "").split(".");
  const words = /^0\d/.test(whole) ? spelled(whole) : cardinal(whole === "" ? "0" : whole, accent);
  return fraction === undefined || fraction === "" ? words : `${words} point ${spelled(fraction)}`;
}
