import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { checkAddress } from "../../../src/config/address.ts";

function refusal(address: string): string | null {
  const verdict = checkAddress(address);
  return verdict.ok ? null : verdict.reason;
}

describe("a metadata service is rejected in any notation:", () => {
  test.each([
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376",
    "025177524776",
    "169.254.43518",
    "169.16689662",
    "①⑥⑨.②⑤④.①⑥⑨.②⑤④",
    "169。254。169。254",
    "169.254.0.1",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "0x64646464c8".replace("64c8", "c8"),
    "168.63.129.16",
    "0xa83f8110",
    "192.0.0.192",
    "3221225664",
    "[fd00:ec2::254]",
    "[fd00:0ec2:0:0:0:0:0:254]",
    "[FD00:EC2::254]",
    "[fd00:ec2::23]",
    "[fd20:ce::254]",
    "[fe80::1]",
    "[febf::1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[::ffff:0:169.254.169.254]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "[2001:0:1:2:3:4:5601:5601]",
    "[::ffff:100.100.100.200]",
    "metadata.google.internal",
    "METADATA.Google.Internal.",
    "metadata.goog",
    "metadata",
    "instance-data.ec2.internal",
    "%6detadata.google.internal",
  ])("%s", (host) => {
    for (const scheme of ["http", "https"]) {
      expect(refusal(`${scheme}://${host}/v1`)).toMatch(/metadata/);
      expect(refusal(`${scheme}://${host}:8080`)).toMatch(/metadata/);
    }
  });

  test("each link-local address, in dotted, decimal, hexadecimal, octal or mapped form", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0xa9fe0000, max: 0xa9feffff }), (address) => {
        const bytes = [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
        const spellings = [
          bytes.join("."),
          String(address),
          `0x${address.toString(16)}`,
          `0${address.toString(8)}`,
          bytes.map((byte) => `0x${byte.toString(16)}`).join("."),
          bytes.map((byte) => `0${byte.toString(8)}`).join("."),
          `[::ffff:${bytes.join(".")}]`,
          `[64:ff9b::${bytes.join(".")}]`,
        ];
        for (const host of spellings) expect(refusal(`http://${host}/`)).toMatch(/metadata/);
      }),
    );
  });
});

describe("addresses that cannot be an upstream are rejected:", () => {
  test.each([
    ["", /not the address/],
    ["api.example.com", /not the address|only http/],
    ["//api.example.com", /not the address/],
    ["file:///etc/passwd", /only http/],
    ["gopher://h/", /only http/],
    ["ftp://h/", /only http/],
    ["javascript:alert(1)", /only http/],
    ["http://", /not the address/],
    ["http://user@h/", /password/],
    ["http://user:pass@h/", /password/],
    ["http://h/#a", /#/],
    ["http://h/#", /#/],
    ["http://h/?a=b", /query/],
    ["http://h/?", /query/],
    ["http://h:0/", /port 0/],
    ["http://h:99999/", /no port 99999/],
    ["http://a b/", /not the address/],
    ["http://h/\r\nx: y", /not the address/],
    ["http:\\\\169.254.169.254", /not the address/],
    ["http://[fe80::1%25eth0]/", /not the address/],
    ["http://[::1", /not the address/],
    [`http://h/${"a".repeat(3000)}`, /not the address/],
  ] as const)("%s", (address, reason) => {
    expect(refusal(address)).toMatch(reason);
  });
});

describe("private addresses are accepted:", () => {
  test.each([
    ["http://127.0.0.1:8000/v1", "127.0.0.1:8000", true],
    ["http://localhost:1234", "localhost:1234", true],
    ["http://0.0.0.0:1", "0.0.0.0:1", true],
    ["http://[::1]:8080/v1", "[::1]:8080", true],
    ["http://10.0.0.5", "10.0.0.5:80", true],
    ["http://172.16.0.1", "172.16.0.1:80", true],
    ["http://172.32.0.1", "172.32.0.1:80", false],
    ["http://192.168.1.2", "192.168.1.2:80", true],
    ["http://100.64.0.1", "100.64.0.1:80", true],
    ["http://[fd12::1]", "[fd12::1]:80", true],
    ["http://vllm:8000", "vllm:8000", true],
    ["https://api.example.com", "api.example.com:443", false],
    ["https://8.8.8.8/v1", "8.8.8.8:443", false],
    ["https://[2001:db8::1]/v1", "[2001:db8::1]:443", false],
    ["https://metadata.example.com", "metadata.example.com:443", false],
  ] as const)("%s", (address, host, near) => {
    expect(checkAddress(address)).toMatchObject({ ok: true, url: address, host, near });
  });
});

test("no text makes the check throw, and no accepted text names a metadata service", () => {
  // What fc.webUrl() gives, which takes most of a second to set up.
  const address = fc
    .tuple(fc.constantFrom("http", "https"), fc.domain(), fc.array(fc.string({ unit: "grapheme" }), { maxLength: 5 }))
    .map(([scheme, host, segments]) => `${scheme}://${[host, ...segments.map(encodeURIComponent)].join("/")}`);
  fc.assert(
    fc.property(
      fc.oneof(
        address,
        fc.string(),
        fc.ipV4().map((host) => `http://${host}`),
        fc.ipV6().map((host) => `http://[${host}]`),
      ),
      (text) => {
        const verdict = checkAddress(text);
        if (verdict.ok) expect(new URL(verdict.url).hostname.startsWith("169.254.")).toBe(false);
      },
    ),
  );
});
