import type { Failure } from "./failure.ts";
import type { JsonMember } from "./json.ts";
import { mistake } from "./mistakes.ts";

/**
 * A field that the gateway decides on, in another spelling: `Model`, `MAX_TOKENS`. Decoders of some upstreams ignore case, so
 * that they would read a value that the gateway has neither checked nor counted.
 */
export function misspelled(members: readonly JsonMember[], names: ReadonlySet<string>): Failure | null {
  for (const { key } of members) {
    if (key.length > nameLengthMax || !unusual.test(key)) continue;
    const name = folded(key);
    if (name !== key && names.has(name)) {
      return mistake(`Unknown parameter: '${key}'. Names are case-sensitive: did you mean '${name}'?`, "unknown_parameter", name);
    }
  }
  return null;
}

/** Upper case first: that is how the long s (U+017F) becomes an s, and lower case how the Kelvin sign (U+212A) becomes a k. */
function folded(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** Anything but lower-case letters, digits and underscores. */
const unusual = /[^a-z\d_]/;
/** Longer than every name that counts. */
const nameLengthMax = 32;
