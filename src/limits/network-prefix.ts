/**
 * The 128 bits of an IP address, as a text of zeros and ones; null if it is none. An IPv4 address is mapped into IPv6 (RFC 4291,
 * 2.5.5.2), because a listener for both sees it that way. The zone of a link-local address is left out.
 */
export function addressBits(address: string): string | null {
  const [bare = ""] = address.split("%", 1);
  const octets = ipv4.exec(bare);
  if (octets !== null) return mappedPrefix + octets.slice(1).map(octetBits).join("");
  if (!ipv6Characters.test(bare) || !URL.canParse(`http://[${bare}]/`)) return null;
  // The URL parser writes the address in one way: hexadecimal words, and at most one `::`.
  const [head = "", tail] = new URL(`http://[${bare}]/`).hostname.slice(1, -1).split("::");
  const front = wordsIn(head);
  const back = wordsIn(tail ?? "");
  const missing = Array<string>(Math.max(0, 8 - front.length - back.length)).fill("0");
  return [...front, ...missing, ...back].map((word) => parseInt(word, 16).toString(2).padStart(16, "0")).join("");
}

/** The bits that all addresses of a network begin with, from `ADDRESS/BITS` (RFC 4632) or a single address; null if it is neither. */
export function networkPrefix(network: string): string | null {
  const [address = "", length, ...rest] = network.split("/");
  const bits = rest.length > 0 ? null : addressBits(address);
  if (bits === null || length === undefined) return bits;
  const before = ipv4.test(address) ? mappedPrefix.length : 0;
  const count = before + Number(length);
  return /^\d{1,3}$/.test(length) && count <= bits.length ? bits.slice(0, count) : null;
}

function octetBits(octet: string): string {
  return Number(octet).toString(2).padStart(8, "0");
}

function wordsIn(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

/** Without leading zeros, which some programs read as octal. */
const octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const ipv4 = new RegExp(`^${octet}\\.${octet}\\.${octet}\\.${octet}$`);
const ipv6Characters = /^[\da-f:.]{2,45}$/i;
/** The bits of ::ffff:0:0/96. */
const mappedPrefix = "0".repeat(80) + "1".repeat(16);
