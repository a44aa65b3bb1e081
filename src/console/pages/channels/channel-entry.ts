/** What the form of a channel says, as the admin API takes it. What is empty is left out, so that the gateway's defaults apply. */
export interface ChannelBody {
  readonly entry: Readonly<Record<string, unknown>>;
  readonly secrets?: readonly string[];
}

export function channelEntry(fields: Readonly<Record<string, string>>): ChannelBody {
  const text = (name: string): string => (fields[name] ?? "").trim();
  const models = modelsOf(text("models"));
  return {
    entry: {
      ...(text("provider") === "" ? {} : { provider: text("provider") }),
      ...(text("base_url") === "" ? {} : { base_url: text("base_url") }),
      ...(models === null ? {} : { models }),
      ...(text("tier") === "" ? {} : { tier: Number(text("tier")) }),
      ...(text("weight") === "" ? {} : { weight: Number(text("weight")) }),
    },
    ...(text("secret") === "" ? {} : { secrets: [text("secret")] }),
  };
}

/** One model in each line: `name`, or `name = upstream's name`. Null if there is none. */
export function modelsOf(text: string): Readonly<Record<string, string>> | null {
  const pairs = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => {
      const equals = line.indexOf("=");
      const name = (equals < 0 ? line : line.slice(0, equals)).trim();
      return [name, equals < 0 ? name : line.slice(equals + 1).trim()] as const;
    });
  return pairs.length === 0 ? null : Object.fromEntries(pairs);
}

/** What a new text of the settings changes: null removes a setting. Null if the text is no JSON object. */
export function entryChange(before: Readonly<Record<string, unknown>>, text: string): Readonly<Record<string, unknown>> | null {
  let after: unknown;
  try {
    after = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof after !== "object" || after === null || Array.isArray(after)) return null;
  const given = after as Readonly<Record<string, unknown>>;
  const removed = Object.keys(before).filter((name) => !(name in given));
  const changed = Object.entries(given).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
  return { ...Object.fromEntries(changed), ...Object.fromEntries(removed.map((name) => [name, null])) };
}
