/** An attribute in the JSON encoding of OTLP, in which 64-bit integers are texts. */
export interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}

export type OtlpValue =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly arrayValue: { readonly values: readonly OtlpValue[] } };

/** A number that stays a floating-point number if it happens to be whole. */
export interface DoubleAttribute {
  readonly double: number;
}

export type AttributeInput = string | number | boolean | DoubleAttribute | readonly string[];

/** Leaves out what has no value. */
export function attributes(given: Readonly<Record<string, AttributeInput | null | undefined>>): readonly OtlpAttribute[] {
  const list: OtlpAttribute[] = [];
  for (const [key, value] of Object.entries(given)) addAttribute(list, key, value);
  return list;
}

/** Adds one, if it has a value: for spans, which have many and would first need an object for all of them. */
export function addAttribute(list: OtlpAttribute[], key: string, value: AttributeInput | null | undefined): void {
  if (value !== null && value !== undefined) list.push({ key, value: valueOf(value) });
}

function valueOf(value: AttributeInput): OtlpValue {
  if (typeof value === "string") return { stringValue: short(value) };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number") return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if ("double" in value) return { doubleValue: value.double };
  return { arrayValue: { values: value.map((one) => ({ stringValue: short(one) })) } };
}

function short(text: string): string {
  return (text.length <= charactersMax ? text : text.slice(0, charactersMax)).toWellFormed();
}

const charactersMax = 256;

/** A time of the wall clock in nanoseconds, as a text: the number is too large for a double. */
export function nanosText(wallMs: number): string {
  return `${Math.round(wallMs * 1000)}000`;
}
