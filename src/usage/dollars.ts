/** Billionths in a dollar. */
const dollarNanos = 1_000_000_000;
const nanoDigits = 9;

/** No price has more digits. */
const lengthMax = 64;
const exponentMax = 99;

const amount = /^(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,2}))?$/i;

/**
 * Converts dollars to whole billionths, digit by digit, because 0.1 is not exact as a binary fraction. Smaller fractions are
 * rounded half up. Returns null if the value is no amount, is negative, or is too large to be exact.
 */
export function nanosOf(dollars: number | string): number | null {
  const text = String(dollars).trim();
  const match = text.length > lengthMax ? null : amount.exec(text);
  if (match === null) return null;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole + fraction;
  const shift = nanoDigits - fraction.length + Number(exponent);
  if (digits === "" || Math.abs(Number(exponent)) > exponentMax) return null;
  const nanos = shifted(BigInt(digits), shift);
  return nanos <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(nanos) : null;
}

/** Times ten to the power of `shift`, rounded half up. */
function shifted(digits: bigint, shift: number): bigint {
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (digits + divisor / 2n) / divisor;
}

/** An amount in dollars without trailing zeros: `0.15`, `2`, `0.000000001`. */
export function dollarsOf(nanos: number): string {
  if (!Number.isFinite(nanos)) return "0";
  const whole = Math.trunc(nanos);
  const positive = Math.abs(whole);
  const rest = positive % dollarNanos;
  const dollars = `${whole < 0 ? "-" : ""}${BigInt((positive - rest) / dollarNanos)}`;
  return rest === 0 ? dollars : `${dollars}.${String(rest).padStart(nanoDigits, "0").replace(/0+$/, "")}`;
}

/** The amount in dollars as the nearest number, for JSON and tables. */
export function dollarsNumber(nanos: number): number {
  return nanos / dollarNanos;
}
