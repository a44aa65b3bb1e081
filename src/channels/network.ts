const metadataNames = new Set(["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"]);
/** Metadata services of clouds that are not at a link-local address. */
const metadataHosts: readonly number[] = [ipv4(100, 100, 100, 200), ipv4(168, 63, 129, 16), ipv4(192, 0, 0, 192)];

/** Takes a host as the URL parser writes it, which has turned decimal, hexadecimal and octal forms into dotted ones. */
export function isMetadata(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/\.+$/, "");
  if (metadataNames.has(name)) return true;
  const four = readIpv4(name);
  if (four !== null) return isMetadataIpv4(four);
  const words = readIpv6(name);
  if (words === null) return false;
  const [first = 0, second = 0] = words;
  const linkLocal = (first & 0xffc0) === 0xfe80;
  // AWS has its IPv6 metadata service in fd00:ec2::/32, Google Cloud in fd20:ce::/32.
  const cloud = (first === 0xfd00 && second === 0x0ec2) || (first === 0xfd20 && second === 0x00ce);
  return linkLocal || cloud || embeddedIpv4(words).some(isMetadataIpv4);
}

function isMetadataIpv4(address: number): boolean {
  return address >>> 16 === 0xa9fe || metadataHosts.includes(address);
}

/** Whether a host is this machine or on a private network, where plain HTTP is common. */
export function isPrivateHost(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/\.+$/, "");
  const words = readIpv6(name);
  if (words !== null) {
    const [first = 0] = words;
    const loopback = words.slice(0, 7).every((word) => word === 0);
    return loopback || (first & 0xfe00) === 0xfc00 || embeddedIpv4(words).some(isPrivateIpv4);
  }
  const four = readIpv4(name);
  if (four !== null) return isPrivateIpv4(four);
  // A name without a dot is resolved by the local network, as the names of containers are.
  return !name.includes(".") || /\.(localhost|local|internal|lan|home\.arpa)$/.test(name);
}

function isPrivateIpv4(address: number): boolean {
  const top = address >>> 24;
  return (
    top === 0 || top === 10 || top === 127 || address >>> 20 === 0xac1 || address >>> 16 === 0xc0a8 || address >>> 22 === (100 << 2) + 1
  );
}

function ipv4(a: number, b: number, c: number, d: number): number {
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}

function readIpv4(host: string): number | null {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(host);
  if (match === null) return null;
  const [a = 0, b = 0, c = 0, d = 0] = match.slice(1).map(Number);
  return ipv4(a, b, c, d);
}

/** The eight words of an address in brackets, as the URL parser writes it: lower case, at most one `::`. */
function readIpv6(host: string): readonly number[] | null {
  if (!host.startsWith("[") || !host.endsWith("]")) return null;
  const [head = "", tail] = host.slice(1, -1).split("::");
  const words = (part: string): number[] => (part === "" ? [] : part.split(":").map((word) => parseInt(word, 16)));
  const front = words(head);
  const back = tail === undefined ? [] : words(tail);
  return [...front, ...Array<number>(Math.max(0, 8 - front.length - back.length)).fill(0), ...back];
}

/**
 * The IPv4 addresses that an IPv6 address may be translated to on the way: mapped and compatible ones, NAT64
 * (RFC 6052 and 8215), 6to4 (RFC 3056) and Teredo (RFC 4380, which stores the client's address inverted).
 */
function embeddedIpv4(words: readonly number[]): readonly number[] {
  const [first = 0, second = 0, third = 0, , , sixth = 0, seventh = 0, eighth = 0] = words;
  const last = ((seventh << 16) | eighth) >>> 0;
  const zeroUntilSixth = words.slice(0, 5).every((word) => word === 0);
  if (zeroUntilSixth && (sixth === 0xffff || sixth === 0) && last > 1) return [last];
  // ::ffff:0:a.b.c.d, the translated form of RFC 2765.
  if (words.slice(0, 4).every((word) => word === 0) && words[4] === 0xffff && sixth === 0) return [last];
  if (first === 0x64 && second === 0xff9b) return [last];
  if (first === 0x2002) return [((second << 16) | third) >>> 0];
  if (first === 0x2001 && second === 0) return [last, ~last >>> 0];
  return [];
}

/** Whether an address, as a resolver returns it, is public: not private, not reserved, and not one that tunnels to either. */
export function isPublicAddress(address: string): boolean {
  const four = readIpv4(address);
  if (four !== null)
    return !isMetadataIpv4(four) && !reservedIpv4.some(([network, bits]) => four >>> (32 - bits) === network >>> (32 - bits));
  const words = readIpv6(`[${canonicalIpv6(address)}]`);
  if (words === null) return false;
  const [first = 0, second = 0] = words;
  // IANA assigns public addresses from 2000::/3 only. Of it, protocol assignments such as Teredo, documentation and 6to4 are not public.
  if (first >>> 13 !== 1) return false;
  return !(first === 0x2001 && second < 0x200) && !(first === 0x2001 && second === 0x0db8) && first !== 0x2002 && first >>> 4 !== 0x3ff;
}

/** Whether a host, as the URL parser writes it, is an address that is not public. Names are checked when they are resolved. */
export function isReserved(hostname: string): boolean {
  if (hostname.startsWith("[")) return !isPublicAddress(hostname.slice(1, -1));
  return readIpv4(hostname) !== null && !isPublicAddress(hostname);
}

/** Whether an address, as a resolver returns it, is a cloud's metadata service or link-local. */
export function isMetadataAddress(address: string): boolean {
  const four = readIpv4(address);
  return four !== null ? isMetadataIpv4(four) : isMetadata(`[${canonicalIpv6(address)}]`);
}

/** The special-purpose IPv4 networks (RFC 6890), multicast and reserved ones. */
const reservedIpv4: readonly (readonly [network: number, bits: number])[] = [
  [ipv4(0, 0, 0, 0), 8],
  [ipv4(10, 0, 0, 0), 8],
  [ipv4(100, 64, 0, 0), 10],
  [ipv4(127, 0, 0, 0), 8],
  [ipv4(169, 254, 0, 0), 16],
  [ipv4(172, 16, 0, 0), 12],
  [ipv4(192, 0, 0, 0), 24],
  [ipv4(192, 0, 2, 0), 24],
  [ipv4(192, 88, 99, 0), 24],
  [ipv4(192, 168, 0, 0), 16],
  [ipv4(198, 18, 0, 0), 15],
  [ipv4(198, 51, 100, 0), 24],
  [ipv4(203, 0, 113, 0), 24],
  [ipv4(224, 0, 0, 0), 3],
];

/** The canonical form of an IPv6 address, without its zone; empty if it is none. */
function canonicalIpv6(address: string): string {
  const [bare = ""] = address.split("%", 1);
  const url = `http://[${bare}]/`;
  return URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : "";
}
