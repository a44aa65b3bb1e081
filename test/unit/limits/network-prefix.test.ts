import { describe, expect, test } from "bun:test";
import { addressBits, networkPrefix } from "../../../src/limits/network-prefix.ts";

describe("the bits of an address", () => {
  test("are 128, whatever its family", () => {
    for (const address of ["1.2.3.4", "::", "::1", "2001:db8::1", "fe80::1%eth0", "::ffff:1.2.3.4"]) {
      expect(addressBits(address)).toMatch(/^[01]{128}$/);
    }
  });

  test("are the same for every spelling of it", () => {
    expect(addressBits("::ffff:10.1.2.3")).toBe(addressBits("10.1.2.3"));
    expect(addressBits("::FFFF:a01:203")).toBe(addressBits("10.1.2.3"));
    expect(addressBits("2001:DB8:0:0::1")).toBe(addressBits("2001:db8::1"));
    expect(addressBits("fe80::1%eth0")).toBe(addressBits("fe80::1"));
  });

  test.each([
    "",
    "unknown",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.256",
    "01.2.3.4",
    "1.2.3.4 ",
    "0x7f.1",
    "2130706433",
    ":",
    ":::",
    "1::2::3",
    "g::1",
    "[::1]",
    "_hidden",
  ])("do not exist for %p", (text) => {
    expect(addressBits(text)).toBeNull();
  });
});

describe("a network", () => {
  test.each([
    ["10.0.0.0/8", "10.255.0.1", true],
    ["10.0.0.0/8", "11.0.0.1", false],
    ["10.1.2.3/8", "10.0.0.1", true],
    ["10.0.0.0/8", "::ffff:10.0.0.1", true],
    ["192.0.2.7", "192.0.2.7", true],
    ["192.0.2.7", "192.0.2.8", false],
    ["192.0.2.0/25", "192.0.2.128", false],
    ["fd00::/8", "fdab::1", true],
    ["fd00::/8", "fe00::1", false],
    ["::1/128", "::1", true],
    ["::/1", "10.0.0.1", true],
  ])("%s: %s is in it, %p", (network, address, isInside) => {
    expect(addressBits(address)?.startsWith(networkPrefix(network) ?? "none")).toBe(isInside);
  });

  test.each([
    "",
    "/8",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "::/129",
    "::/1e1",
    "proxy.example.com",
    "10.0.0.0/255.0.0.0",
  ])("is not %p", (text) => {
    expect(networkPrefix(text)).toBeNull();
  });
});
