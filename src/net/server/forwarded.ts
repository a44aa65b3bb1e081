import { addressBits } from "../../limits/network-prefix.ts";
import type { TrustedProxies } from "../../gateway/snapshot.ts";

/** The address of a peer that is connected through a unix socket, which has none of its own. */
export const unixPeer = "unix";

/** Whether a peer is a proxy whose word about the client's address is taken. */
export function isTrustedProxy(peer: string, { prefixes, overUnixSocket }: TrustedProxies): boolean {
  if (peer === unixPeer) return overUnixSocket;
  const bits = addressBits(peer);
  return bits !== null && prefixes.some((prefix) => bits.startsWith(prefix));
}

/**
 * The address of the client. Anybody can write a header, so it is believed only as far as trusted proxies wrote it: each proxy adds
 * the address that it was called from at the end, and the last one that is not of a trusted proxy is the client's. Whatever stands
 * before that, the client may have made up.
 */
export function clientAddress(peer: string, header: (name: string) => string | null, trusted: TrustedProxies | null): string {
  if (trusted === null || !isTrustedProxy(peer, trusted)) return peer;
  const value = header(trusted.header);
  if (value === null) return peer;
  const hops = (trusted.header === "forwarded" ? forwardedHops(value) : value.split(",").map((hop) => hop.trim())).slice(-hopsMax);
  let client = peer;
  for (const hop of hops.toReversed()) {
    const address = hop === null ? null : addressOf(hop);
    // A hidden or malformed hop: what stands before it was written by who knows whom.
    if (address === null) return client;
    client = address;
    if (!isTrustedProxy(address, trusted)) return client;
  }
  return client;
}

/** The value of `for` in each element of a Forwarded header (RFC 7239, 4); null for one that has none, or more than one. */
export function forwardedHops(value: string): readonly (string | null)[] {
  return splitOutsideQuotes(value, ",").map((element) => {
    const values = splitOutsideQuotes(element, ";").flatMap((pair) => pairFor.exec(pair.trim())?.[1] ?? []);
    const [only, ...more] = values;
    return only === undefined || more.length > 0 ? null : unquoted(only);
  });
}

/** Without its port, which some proxies add. An IPv6 address with a port is in brackets (RFC 7239, 6). */
function addressOf(hop: string): string | null {
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(hop)?.[1];
  const address = bracketed ?? /^([\d.]+):\d{1,5}$/.exec(hop)?.[1] ?? hop;
  return addressBits(address) === null || (bracketed !== undefined && !address.includes(":")) ? null : address.toLowerCase();
}

/**
 * Reads from the end, which our proxies wrote: a quote that a client opens and does not close must not swallow what they added behind
 * it.
 */
function splitOutsideQuotes(text: string, separator: "," | ";"): readonly string[] {
  const parts: string[] = [];
  let end = text.length;
  let isQuoted = false;
  for (let at = text.length - 1; at >= 0; at--) {
    const character = text[at];
    if (character === '"' && text[at - 1] !== "\\") isQuoted = !isQuoted;
    else if (character === separator && !isQuoted) {
      parts.push(text.slice(at + 1, end));
      end = at;
    }
  }
  parts.push(text.slice(0, end));
  return parts.toReversed();
}

function unquoted(value: string): string {
  return value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1).replaceAll(/\\(.)/g, "$1") : value;
}

const pairFor = /^for=(.*)$/i;
/** More than any chain of proxies has. */
const hopsMax = 32;
