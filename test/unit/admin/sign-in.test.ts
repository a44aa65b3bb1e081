import { describe, expect, test } from "bun:test";
import { groupRole } from "../../../src/admin/login/group-role.ts";
import { ownAddress, SignInCookie, signInMs, type BrowserSignIn } from "../../../src/admin/login/pending-sign-in.ts";
import type { TextSeal } from "../../../src/operations/conversation/sealed-parts.ts";
import { makeTextSeal } from "../../../src/store/secrets/text-seal.ts";

describe("the role of a person", () => {
  const rules = {
    adminGroups: ["platform"],
    groupAdmins: new Map([
      ["leads", "web"],
      ["heads", "sales"],
    ]),
    viewerGroups: ["engineering", "audit"],
  };

  test.each([
    [["platform"], "admin", []],
    [["audit", "leads", "platform"], "admin", []],
    [["engineering", "leads"], "group_admin", ["web"]],
    [["heads", "leads"], "group_admin", ["web", "sales"]],
    [["engineering"], "viewer", []],
  ] as const)("in the groups %j is %p", (own, role, groups) => {
    expect(groupRole(own, rules)).toEqual({ role, groups: [...groups] });
  });

  test.each([[[]], [["Platform", "platform ", "platform-team", "*"]]] as const)("in the groups %j is none", (groups) => {
    expect(groupRole(groups, rules)).toBeNull();
  });

  test("is that of a viewer for everybody only where the configuration says so", () => {
    const none = { adminGroups: [], groupAdmins: new Map<string, string>(), viewerGroups: [] };
    expect(groupRole([], { ...none, viewerGroups: ["*"] })).toEqual({ role: "viewer", groups: [] });
    expect(groupRole(["*"], { ...none, adminGroups: ["a"] })).toBeNull();
  });
});

describe("the cookie of a sign-in", () => {
  const sealOf = (byte: number): TextSeal => makeTextSeal({ version: "1", bytes: new Uint8Array(32).fill(byte) });
  const signIn: BrowserSignIn = { state: "s", nonce: "n", verifier: "v", returnTo: "https://a.example/", untilMs: 1_000 + signInMs };
  const pair = (cookie: SignInCookie): string => cookie.set(signIn).split(";")[0] ?? "";

  test("is read by the gateway that set it, and by its replicas, until it has expired", () => {
    const cookie = new SignInCookie(true, sealOf(1));
    expect(cookie.set(signIn)).toMatch(/^__Host-sluice_sign_in=[^;]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
    expect(pair(cookie)).not.toContain("a.example");
    expect(new SignInCookie(true, sealOf(1)).read(`x=1; ${pair(cookie)}`, 1_000)).toEqual(signIn);
    expect(cookie.read(pair(cookie), 1_000 + signInMs)).toBeNull();
  });

  test("is nothing if somebody else sealed it, changed it, or sent two", () => {
    const cookie = new SignInCookie(false, sealOf(1));
    const foreign = pair(new SignInCookie(false, sealOf(2)));
    const own = pair(cookie);
    for (const header of [
      null,
      "",
      foreign,
      `${own}A`,
      own.slice(0, -2),
      `${own}; ${foreign}`,
      "sluice_sign_in=%",
      `sluice_sign_in=${"x".repeat(5000)}`,
    ]) {
      expect(cookie.read(header, 1_000)).toBeNull();
    }
    // What was sealed for another purpose does not open.
    const other = sealOf(1).seal(JSON.stringify(signIn), ["another purpose"]) ?? "";
    expect(cookie.read(`sluice_sign_in=${encodeURIComponent(other)}`, 1_000)).toBeNull();
  });
});

describe("the address after a sign-in", () => {
  const site = "https://sluice.example.com";

  test("is one of this listener", () => {
    expect(ownAddress("/console?tab=keys#top", site)).toBe(`${site}/console?tab=keys#top`);
    expect(ownAddress("/.//evil.example", site)).toBe(`${site}//evil.example`);
    expect(ownAddress("/@evil.example", site)).toBe(`${site}/@evil.example`);
  });

  test.each([
    "",
    "console",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "https://evil.example",
    "/x".repeat(300),
  ])("is not %j", (path) => {
    expect(ownAddress(path, site)).toBeNull();
  });
});
