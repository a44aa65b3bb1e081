import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { IssuerClient, IssuerProblem } from "../../../src/identity/issuer-client.ts";
import { KeySet } from "../../../src/identity/key-set.ts";
import { issuerUrl, PaperIssuer, signingKey, type SigningKey } from "../../support/issuer.ts";

let one: SigningKey;
let two: SigningKey;
let issuer: PaperIssuer;
let clock: { nowMs: number };
let keys: KeySet;

beforeAll(async () => {
  [one, two] = [await signingKey("one"), await signingKey("two")];
});

beforeEach(() => {
  issuer = new PaperIssuer();
  issuer.keys = [one.publicJwk];
  clock = { nowMs: 1_000_000 };
  keys = new KeySet(new IssuerClient(issuerUrl, false, issuer.fetchText), null, () => clock.nowMs);
});

const find = async (kid: string): Promise<string> => {
  const found = await keys.find({ alg: "ES256", kid });
  if (found instanceof IssuerProblem) return found.message;
  return found.keys.length === 0 ? "none" : "found";
};

describe("the keys of an issuer", () => {
  test("are fetched once, however many ask at once and afterwards", async () => {
    expect(await Promise.all(["one", "one", "one"].map(find))).toEqual(["found", "found", "found"]);
    expect(await find("one")).toBe("found");
    expect(issuer.asked).toEqual([`${issuerUrl}/.well-known/openid-configuration`, `${issuerUrl}/keys`]);
  });

  test("are fetched again for a token with a new one, but once in ten seconds only", async () => {
    expect(await find("one")).toBe("found");
    issuer.keys = [one.publicJwk, two.publicJwk];
    expect(await find("two")).toBe("none");
    expect(issuer.asked.length).toBe(2);
    clock.nowMs += 10_000;
    expect(await find("two")).toBe("found");
    for (let guess = 0; guess < 100; guess += 1) expect(await find(`guess-${guess}`)).toBe("none");
    expect(issuer.asked.length).toBe(4);
  });

  test("that it has withdrawn are no longer accepted after ten minutes", async () => {
    expect(await find("one")).toBe("found");
    issuer.keys = [two.publicJwk];
    clock.nowMs += 10 * 60_000 + 1;
    expect(await find("one")).toBe("none");
  });

  test("stay known for a day while it is down, and are then unknown, which is not the token's fault", async () => {
    expect(await find("one")).toBe("found");
    issuer.down = "connection refused";
    clock.nowMs += 23 * 3_600_000;
    expect(await find("one")).toBe("found");
    clock.nowMs += 2 * 3_600_000;
    expect(await find("one")).toContain("connection refused");
    issuer.down = null;
    expect(await find("one")).toContain("connection refused");
    clock.nowMs += 10_000;
    expect(await find("one")).toBe("found");
  });

  test("that are known are used while it hangs, and replaced when it answers", async () => {
    keys = new KeySet(new IssuerClient(issuerUrl, false, issuer.fetchText), null, () => clock.nowMs, 1);
    expect(await find("one")).toBe("found");
    const { promise, resolve } = Promise.withResolvers<void>();
    issuer.hangs = promise;
    issuer.keys = [two.publicJwk];
    clock.nowMs += 11 * 60_000;
    expect(await find("one")).toBe("found");
    // Whoever comes later does not even wait for a moment.
    clock.nowMs += 1;
    expect(await find("one")).toBe("found");
    expect(issuer.asked).toHaveLength(3);
    resolve();
    expect(await find("two")).toBe("found");
    expect(await find("one")).toBe("none");
  });

  test("that could not be fetched in time are not asked for again by who waited for them", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    issuer.hangs = promise;
    issuer.down = "there was no answer";
    const waiting = find("one");
    clock.nowMs += 10_000;
    resolve();
    expect(await waiting).toContain("there was no answer");
    expect(issuer.asked).toHaveLength(1);
    issuer.down = null;
    clock.nowMs += 10_000;
    expect(await find("one")).toBe("found");
  });

  const lies: readonly (readonly [what: string, tell: () => void])[] = [
    ["metadata of another issuer", () => (issuer.metadata["issuer"] = "https://other.example")],
    ["metadata without a place", () => (issuer.metadata["jwks_uri"] = 7)],
    ["a place without TLS", () => (issuer.metadata["jwks_uri"] = "http://issuer.example/keys")],
    ["a place that is a file", () => (issuer.metadata["jwks_uri"] = "file:///etc/passwd")],
    ["a place with a password", () => (issuer.metadata["jwks_uri"] = "https://u:p@issuer.example/keys")],
    ["an error", () => (issuer.status = 500)],
    ["a redirect", () => (issuer.status = 302)],
    ["what is no JSON", () => (issuer.body = "<html>")],
    ["a list", () => (issuer.body = "[]")],
    ["keys that are no list", () => (issuer.body = '{"keys":{}}')],
    ["a thousand keys", () => (issuer.keys = Array.from({ length: 1000 }, () => one.publicJwk))],
  ];
  test.each(lies)("are unknown where it answers with %s", async (_, tell) => {
    tell();
    expect(["found", "none"]).not.toContain(await find("one"));
  });

  test("that cannot be used do not hide those that can", async () => {
    issuer.keys = [null, 7, { kty: "EC" }, { kty: "unknown", kid: "one" }, { kty: "oct", kid: "one", k: "AAAA" }, one.publicJwk];
    expect(await find("one")).toBe("found");
  });

  test("are all found where several have the same name, but no more than four", async () => {
    issuer.keys = [one.publicJwk, { ...two.publicJwk, kid: "one" }];
    const several = await keys.find({ alg: "ES256", kid: "one" });
    expect(several instanceof IssuerProblem ? several : several.keys.length).toBe(2);
    clock.nowMs += 11 * 60_000;
    issuer.keys = Array.from({ length: 50 }, () => one.publicJwk);
    const many = await keys.find({ alg: "ES256", kid: "one" });
    expect(many instanceof IssuerProblem ? many : many.keys.length).toBe(4);
  });

  test("are looked for in the operator's network only if they are at the issuer's own origin", async () => {
    await find("one");
    issuer.metadata["jwks_uri"] = "https://keys.example/keys";
    clock.nowMs += 3_600_000;
    await find("one");
    expect(issuer.reaches).toEqual(["any", "any", "any", "public"]);
  });
});
