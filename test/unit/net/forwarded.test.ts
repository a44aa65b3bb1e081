import { describe, expect, test } from "bun:test";
import type { TrustedProxies } from "../../../src/gateway/snapshot.ts";
import { networkPrefix } from "../../../src/limits/network-prefix.ts";
import { clientAddress, forwardedHops } from "../../../src/net/server/forwarded.ts";

function trusting(header: TrustedProxies["header"], ...networks: readonly string[]): TrustedProxies {
  const prefixes = networks.filter((network) => network !== "unix").map((network) => networkPrefix(network) ?? "none");
  return { prefixes, overUnixSocket: networks.includes("unix"), header };
}

function addressFor(peer: string, headers: Readonly<Record<string, string>>, trusted: TrustedProxies | null): string {
  return clientAddress(peer, (name) => headers[name] ?? null, trusted);
}

const ours = trusting("x-forwarded-for", "10.0.0.0/8", "fd00::/8");

describe("X-Forwarded-For", () => {
  test.each([
    ["one proxy", "203.0.113.9", "203.0.113.9"],
    ["the last that is not ours, whatever a client wrote before it", "1.1.1.1, 203.0.113.9", "203.0.113.9"],
    ["two of our proxies", "1.1.1.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"],
    ["a port", "203.0.113.9:4711", "203.0.113.9"],
    ["IPv6", "2001:DB8::1", "2001:db8::1"],
    ["IPv6 with a port", "[2001:db8::1]:4711", "2001:db8::1"],
    ["IPv6 of our own proxy", "2001:db8::1, fd00::2", "2001:db8::1"],
    ["only our proxies: the first of them asked", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["nothing", "", "10.0.0.1"],
    ["a hidden client", "unknown", "10.0.0.1"],
    ["a malformed hop, before which nothing is believed", "203.0.113.9, bogus, 10.0.0.2", "10.0.0.2"],
    ["an injected line", "203.0.113.9\r\nevil: 1", "10.0.0.1"],
    ["an address in brackets that needs none", "[203.0.113.9]", "10.0.0.1"],
  ])("of a trusted proxy is believed: %s", (_, value, expected) => {
    expect(addressFor("10.0.0.1", { "x-forwarded-for": value }, ours)).toBe(expected);
  });

  test("is ignored from anybody else", () => {
    expect(addressFor("198.51.100.1", { "x-forwarded-for": "203.0.113.9" }, ours)).toBe("198.51.100.1");
    expect(addressFor("10.0.0.1", { "x-forwarded-for": "203.0.113.9" }, null)).toBe("10.0.0.1");
    expect(addressFor("unix", { "x-forwarded-for": "203.0.113.9" }, ours)).toBe("unix");
  });

  test("is believed from a unix socket where that is configured", () => {
    expect(addressFor("unix", { "x-forwarded-for": "203.0.113.9" }, trusting("x-forwarded-for", "unix"))).toBe("203.0.113.9");
  });

  test("goes before Forwarded, which a client may have written, and the other way round", () => {
    const both = { "x-forwarded-for": "203.0.113.1", forwarded: "for=203.0.113.2" };
    expect(addressFor("10.0.0.1", both, ours)).toBe("203.0.113.1");
    expect(addressFor("10.0.0.1", both, trusting("forwarded", "10.0.0.0/8"))).toBe("203.0.113.2");
    expect(addressFor("10.0.0.1", { forwarded: "for=203.0.113.2" }, ours)).toBe("10.0.0.1");
  });

  test("of endless length costs little, and only its end counts", () => {
    const long = `${"1.1.1.1,".repeat(2000)}203.0.113.9${",10.0.0.2".repeat(3)}`;
    expect(addressFor("10.0.0.1", { "x-forwarded-for": long }, ours)).toBe("203.0.113.9");
  });
});

describe("Forwarded (RFC 7239)", () => {
  test.each([
    ["for=192.0.2.60;proto=http;by=203.0.113.43", ["192.0.2.60"]],
    ['For="[2001:db8:cafe::17]:4711"', ["[2001:db8:cafe::17]:4711"]],
    ["for=192.0.2.43, for=198.51.100.17", ["192.0.2.43", "198.51.100.17"]],
    ['for="a,b;c";proto=https, for=_hidden', ["a,b;c", "_hidden"]],
    ['for="quo\\"ted"', ['quo"ted']],
    ["proto=https", [null]],
    ["for=1.1.1.1;for=2.2.2.2", [null]],
    ["", [null]],
    ['for="unfinished, for=1.1.1.1', ['"unfinished', "1.1.1.1"]],
    ['for="unfinished, for="[2001:db8::7]:99";proto=https', ['"unfinished', "[2001:db8::7]:99"]],
    ['for=1.1.1.1, for="unfinished', ['1.1.1.1, for="unfinished']],
  ])("%s", (value, hops) => {
    expect(forwardedHops(value)).toEqual(hops);
  });

  test("names the client through our proxies", () => {
    const trusted = trusting("forwarded", "10.0.0.0/8");
    expect(addressFor("10.0.0.1", { forwarded: 'for=6.6.6.6, for="[2001:db8::7]:99";proto=https, for=10.0.0.2' }, trusted)).toBe(
      "2001:db8::7",
    );
    expect(addressFor("10.0.0.1", { forwarded: "for=_secret" }, trusted)).toBe("10.0.0.1");
    expect(addressFor("10.0.0.1", { forwarded: 'for=203.0.113.9, for="x' }, trusted)).toBe("10.0.0.1");
  });

  test("cannot be hidden by a client that opens a quote and does not close it", () => {
    const trusted = trusting("forwarded", "10.0.0.0/8");
    for (const begun of ['for="', 'for="x', 'for="x\\', '"', 'for="x", for="', 'for=";']) {
      expect([begun, addressFor("10.0.0.1", { forwarded: `${begun}, for=203.0.113.9` }, trusted)]).toEqual([begun, "203.0.113.9"]);
      expect(addressFor("10.0.0.1", { forwarded: `${begun}, for="[2001:db8::7]:99", for=10.0.0.2` }, trusted)).toBe("2001:db8::7");
    }
  });
});
