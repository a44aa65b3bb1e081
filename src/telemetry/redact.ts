import type { Channel } from "../channels/channel.ts";

/**
 * Takes the secrets of a channel out of a text: its keys, the values of its headers and what opens its proxy, also in base64, percent-encoded or
 * escaped as in JSON. Patterns elsewhere find what looks like a secret; this finds those that do not.
 */
export function makeRedact(secretsOf: (channel: Channel) => Iterable<string>): (channel: Channel, text: string) => string {
  const known = new WeakMap<Channel, readonly string[]>();
  return (channel, text) => {
    let forms = known.get(channel);
    if (forms === undefined) known.set(channel, (forms = formsOf(channel, secretsOf(channel))));
    let clean = text;
    for (const form of forms) if (clean.includes(form)) clean = clean.replaceAll(form, mark);
    return clean;
  };
}

const mark = "[redacted]";

/** Longest first, so that no part of one is left because another stood in it. */
function formsOf(channel: Channel, secrets: Iterable<string>): readonly string[] {
  const values = [
    ...[...secrets].filter((secret) => secret.length >= secretMinChars),
    ...Object.values(channel.headers).flatMap(headerSecrets),
    ...proxySecrets(channel.proxy),
  ];
  return [...new Set(values.flatMap(spellings))].sort((one, other) => other.length - one.length);
}

/** Shorter ones are no secrets, and would take every other word out of a text. */
const secretMinChars = 4;
const headerMinChars = 8;

/** A header's value, and what follows its scheme (`Bearer …`). Versions and media types are no secrets. */
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

/** However it is aligned: what stands before and behind it in the same base64 text changes only the characters at its ends. */
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
