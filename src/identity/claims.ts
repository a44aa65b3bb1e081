import { isObject } from "./issuer-client.ts";

/**
 * A claim by its name, or, if no claim has that name, by a path with dots into nested ones, such as `realm_access.roles`. Names may have
 * dots themselves, as in the tokens of Kubernetes: `kubernetes.io.namespace` is the `namespace` in `kubernetes.io`.
 */
export function claimAt(claims: Readonly<Record<string, unknown>>, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  for (let dot = path.indexOf("."); dot >= 0; dot = path.indexOf(".", dot + 1)) {
    const name = path.slice(0, dot);
    const outer = Object.hasOwn(claims, name) ? claims[name] : undefined;
    const inner = isObject(outer) ? claimAt(outer, path.slice(dot + 1)) : undefined;
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** The texts of a claim that is a text or a list of texts. A very long list is cut: it cannot grant more than its beginning. */
export function claimTexts(value: unknown): readonly string[] {
  const values: readonly unknown[] = Array.isArray(value) ? value.slice(0, valuesMax) : [value];
  return values.filter((one) => typeof one === "string");
}

const valuesMax = 10_000;
