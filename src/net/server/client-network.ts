/**
 * An IPv4 address, or the /64 network of an IPv6 address: a site is assigned at least a /64 (RFC 6177), so its addresses count
 * as one client.
 */
export function clientNetwork(address: string): string {
  const [plain = ""] = address.toLowerCase().split("%");
  const mapped = /^(?:0*:)*:?ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain);
  if (mapped?.[1] !== undefined) return mapped[1];
  if (!plain.includes(":")) return plain.slice(0, lengthMax);
  const [head = "", tail] = plain.split("::");
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const missing = Math.max(0, groupsInAll - before.length - after.length);
  const all = [...before, ...Array.from({ length: missing }, () => "0"), ...after];
  return `${all
    .slice(0, groupsInNetwork)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`.slice(0, lengthMax);
}

function groups(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

const groupsInAll = 8;
const groupsInNetwork = 4;
const lengthMax = 64;
