import type { Channel } from "../channels/channel.ts";

/**
 * Removes the secrets of a channel from a text: its keys, the values of its headers and the password of its proxy; also in
 * base64, percent-encoded or with JSON escapes. Patterns elsewhere find what looks like a secret; this finds the ones that do
 * not. `passing` are secrets that change while the channel stays, such as access tokens: they are removed as they are.
 */
export function makeRedact(
  secretsOf: (channel: Channel) => Iterable<string>,
  passing: () => Iterable<string> = () => [],
): (channel: Channel, text: string) => string {
  const known = new WeakMap<Channel, readonly string[]>();
  return (channel, text) => {
    let forms = known.get(channel);
    if (forms === undefined) known.set(channel, (forms = formsOf(channel, secretsOf(channel))));
    let clean = text;
    for (const secret of passing()) clean = clean.replaceAll(secret, mark);
    for (const form of forms) if (clean.includes(form)) clean = clean.replaceAll(form, mark);
    return clean;
  };
}

const mark = "[redacted]";

/** Longest first, so that a secret which contains another one is removed as a whole. */
function formsOf(channel: Channel, secrets: Iterable<string>): readonly string[] {
  const values = [
    ...[...secrets].filter((secret) => secret.length >= secretMinChars),
    ...Object.values(channel.headers).flatMap(headerSecrets),
    ...proxySecrets(channel.proxy),
  ];
  return [...new Set(values.flatMap(spellings))].sort((one, other) => other.length - one.length);
}

/** Shorter values are no secrets, and would be removed from ordinary words. */
const secretMinChars = 4;
const headerMinChars = 8;

/** A header's value, and the part after its scheme (`Bearer …`). Versions, media types and URLs are no secrets. */
function headerSecrets(value: string): readonly string[] {
  const parts = [value.trim(), value.trim().replace(/^\S+\s+/, "")];
  return parts.filter((part) => part.length >= headerMinChars && !/^(?:\d{4}-\d\d-\d\d[\w.-]*|[a-z]+\/[\w.+-]+|https?:\S+)$/i.test(part));
}

function proxySecrets(proxy: string | null): readonly string[] {
  if (proxy === null || !URL.canParse(proxy)) return [];
  const { password } = new URL(proxy);
  return [password, percentDecoded(password)].filter((one) => one.length >= secretMinChars);
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function spellings(secret: string): readonly string[] {
  const percent = encodeURIComponent(secret.toWellFormed());
  const inJson = JSON.stringify(secret).slice(1, -1);
  return [
    secret,
    inJson,
    inJson.replaceAll("/", "\\/"),
    percent,
    percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll("%20", "+"),
    ...base64s(secret),
  ];
}

/** The base64 forms at all three alignments: text before and after a secret changes only the characters at its ends. */
function base64s(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((offset) => {
    const all = Buffer.concat([Buffer.alloc(offset), bytes]);
    const from = Math.ceil((offset * 8) / 6);
    const to = Math.floor((all.length * 8) / 6);
    const plain = all.toString("base64").slice(from, to);
    return plain.length < base64MinChars ? [] : [plain, plain.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

const base64MinChars = 8;
