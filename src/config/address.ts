/** An upstream's address that may be dialled, or why not. */
export type AddressVerdict =
  | { readonly ok: true; readonly url: string; readonly host: string; readonly secure: boolean; readonly near: boolean }
  | { readonly ok: false; readonly reason: string; readonly mend: string };

/**
 * Checks an address that an operator wrote. Private and loopback hosts are welcome in a file: a local model server is
 * a normal upstream. The metadata services of clouds are not, in any spelling: nothing but credentials lives there.
 */
export function checkAddress(text: string): AddressVerdict {
  if (text.length > charactersMax || /[\s\\\p{Cc}]/u.test(text)) return refuse(shape.reason, shape.mend);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) return refuse(shape.reason, shape.mend);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return refuse("only http and https addresses can be used", "write https://…");
  }
  if (url.username !== "" || url.password !== "") {
    return refuse("an address must not hold a user name or a password", "take it out; a key belongs in api_key");
  }
  if (url.hash !== "" || text.includes("#")) return refuse("an address must not hold a #", "remove it and what follows");
  if (url.search !== "" || text.includes("?")) return refuse("an address must not hold a query", "remove the ? and what follows");
  if (url.port === "0") return refuse("port 0 cannot be dialled", "give the port of the upstream");
  if (isMetadata(url.hostname)) {
    return refuse(
      "this is the address of a cloud's metadata service or of a link-local network, which is never dialled",
      "give the address of the upstream itself",
    );
  }
  return {
    ok: true,
    url: text.replace(/\/+$/, ""),
    host: `${url.hostname}:${url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port}`,
    secure: url.protocol === "https:",
    near: isNear(url.hostname),
  };
}

const charactersMax = 2048;
const shape = { reason: "this is not the address of a server", mend: "write it as in https://api.example.com/v1" };

function refuse(reason: string, mend: string): AddressVerdict {
  return { ok: false, reason, mend };
}

/** `fd00:ec2::/32` and `fd20:ce::/32` are where two clouds put theirs in IPv6. */
const metadataNames = new Set(["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"]);
const metadataHosts: readonly number[] = [ipv4(100, 100, 100, 200), ipv4(168, 63, 129, 16), ipv4(192, 0, 0, 192)];

/** Takes a host as the URL parser writes it: decimal, hexadecimal and octal spellings are already dotted there. */
function isMetadata(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/\.+$/, "");
  if (metadataNames.has(name)) return true;
  const four = readIpv4(name);
  if (four !== null) return isMetadataIpv4(four);
  const words = readIpv6(name);
  if (words === null) return false;
  const [first = 0, second = 0] = words;
  const linkLocal = (first & 0xffc0) === 0xfe80;
  const cloud = (first === 0xfd00 && second === 0x0ec2) || (first === 0xfd20 && second === 0x00ce);
  return linkLocal || cloud || embeddedIpv4(words).some(isMetadataIpv4);
}

function isMetadataIpv4(address: number): boolean {
  return address >>> 16 === 0xa9fe || metadataHosts.includes(address);
}

/** On this machine or a private network, where plain http is ordinary. */
function isNear(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/\.+$/, "");
  const words = readIpv6(name);
  if (words !== null) {
    const [first = 0] = words;
    const loopback = words.slice(0, 7).every((word) => word === 0);
    return loopback || (first & 0xfe00) === 0xfc00 || embeddedIpv4(words).some(isPrivateIpv4);
  }
  const four = readIpv4(name);
  if (four !== null) return isPrivateIpv4(four);
  // A name without a dot is resolved by the local network: a container, a service, this machine.
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
