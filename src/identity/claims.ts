import { isObject } from "./issuer-client.ts";

/** A claim by its name, or, if no claim has that name, by a path with dots into nested ones, such as `realm_access.roles`. */
export function claimAt(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  return name
    .split(".")
    .reduce<unknown>((value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined), claims);
}

/** The texts of a claim that is a text or a list of texts. A very long list is cut: it cannot grant more than its beginning. */
export function claimTexts(value: unknown): readonly string[] {
  const values: readonly unknown[] = Array.isArray(value) ? value.slice(0, valuesMax) : [value];
  return values.filter((one) => typeof one === "string");
}

const valuesMax = 10_000;
