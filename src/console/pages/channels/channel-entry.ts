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

/** Makes a change only if nobody else has changed the channel since it was shown. */
export function ifUnchanged(etag: string | null): { readonly headers?: Readonly<Record<string, string>> } {
  return etag === null ? {} : { headers: { "if-match": `"${etag}"` } };
}

/** What is being typed of a tier and a weight, and what was shown when that began. */
export interface BalanceDraft {
  readonly shown: BalancedChannel;
  readonly tier: string;
  readonly weight: string;
}

export interface BalancedChannel {
  readonly tier: number | null;
  readonly weight: number | null;
  readonly etag: string | null;
}

export function balanceDraft(shown: BalancedChannel): BalanceDraft {
  return { shown, tier: String(shown.tier ?? 1), weight: String(shown.weight ?? 1) };
}

/** Only what differs from what was shown. */
export function balanceChange({ shown, tier, weight }: BalanceDraft): { readonly tier?: number; readonly weight?: number } {
  return {
    ...(Number(tier) === (shown.tier ?? 1) ? {} : { tier: Number(tier) }),
    ...(Number(weight) === (shown.weight ?? 1) ? {} : { weight: Number(weight) }),
  };
}
