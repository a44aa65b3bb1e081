import type { z } from "zod";
import { isGroup } from "./kinds.ts";
import { fileSchema } from "./schema.ts";
import type { ConfigFile } from "./schema.ts";
import { each } from "./turns.ts";
import type { Turns } from "./turns.ts";

/**
 * Checks values against the schema. Channels and keys may be thousands, so they are checked one by one, apart from the rest. Where
 * anything is wrong all is checked once more as a whole, and what is said then is the same for small and large files.
 */
export function* checkFile(value: unknown): Turns<{ readonly file: ConfigFile } | { readonly issues: readonly z.core.$ZodIssue[] }> {
  const { channels: channelList, keys: keyList } = fileSchema.shape;
  if (isGroup(value)) {
    const { channels, keys, ...rest } = value;
    const others = fileSchema.safeParse(rest);
    const channelEntries = yield* parsedEntries(channelList.unwrap().element, channels);
    const keyEntries = yield* parsedEntries(keyList.unwrap().element, keys);
    if (others.success && channelEntries !== null && keyEntries !== null) {
      return { file: { ...others.data, channels: channelEntries, keys: keyEntries } };
    }
  }
  const whole = fileSchema.safeParse(value);
  return whole.success ? { file: whole.data } : { issues: whole.error.issues };
}

/** Null where one of them is wrong. */
function* parsedEntries<T>(entry: z.ZodType<T>, values: unknown): Turns<T[] | null> {
  if (values === undefined) return [];
  if (!Array.isArray(values)) return null;
  const results = yield* each(values as readonly unknown[], (value) => entry.safeParse(value));
  const parsed = results.flatMap((result) => (result.success ? [result.data] : []));
  return parsed.length === results.length ? parsed : null;
}
