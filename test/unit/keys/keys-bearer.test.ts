import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isBearerToken, parseBearer } from "../../../src/keys/bearer.ts";
import { anyText } from "../../support/properties.ts";

describe("an Authorization header", () => {
  test.each([
    ["Bearer abc", "abc"],
    ["bearer abc", "abc"],
    ["BEARER abc", "abc"],
    ["Bearer   abc", "abc"],
    ["Bearer abc ", "abc"],
    ["Bearer sk-gw_x~!$%&'*+.^_|/=", "sk-gw_x~!$%&'*+.^_|/="],
  ])("«%s» carries one token", (header, token) => {
    expect(parseBearer(header)).toBe(token);
  });

  test.each([["Bearer abc, Bearer def"], ["Bearer abc,Bearer abc"], ["Bearer abc,"], [","], ["Basic x, Bearer abc"]])(
    "«%s» is ambiguous",
    (header) => {
      expect(parseBearer(header)).toEqual({ kind: "ambiguous" });
    },
  );

  test.each([
    ["Bearer"],
    ["Bearer "],
    ["Bearer    "],
    ["abc"],
    ["Basic abc"],
    ["Bearerabc"],
    [" Bearer abc"],
    ["Bearer\tabc"],
    ["Bearer a b"],
    ["Bearer Bearer abc"],
    ["Bearer a\tb"],
    ["Bearer a\u0000b"],
    ["Bearer a\r\nb"],
    ["Bearer a\u007f"],
    ["Bearer clé"],
    ["Bearer \u{1f511}"],
    [`Bearer ${"a".repeat(506)}`],
  ])("«%s» is malformed", (header) => {
    expect(parseBearer(header)).toEqual({ kind: "malformed" });
  });

  test("that is not there, or says nothing, is missing", () => {
    expect([parseBearer(null), parseBearer("")]).toEqual([{ kind: "missing" }, { kind: "missing" }]);
  });

  test("up to 512 characters is read", () => {
    expect(parseBearer(`Bearer ${"a".repeat(505)}`)).toBe("a".repeat(505));
  });

  test("never gives a token that could not be sent back, whatever it holds", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          anyText().map((text) => `Bearer ${text}`),
        ),
        (header) => {
          const token = parseBearer(header);
          if (typeof token !== "string") return;
          expect(isBearerToken(token)).toBe(true);
          expect(token).toMatch(/^[\x21-\x7e]+$/);
          expect(parseBearer(`Bearer ${token}`)).toBe(token);
        },
      ),
    );
  });
});
