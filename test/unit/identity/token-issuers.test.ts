import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { TokenIssuers, tokenKeyId, type TrustedIssuer } from "../../../src/identity/token-issuers.ts";
import type { Key } from "../../../src/keys/key.ts";
import type { StoredKey } from "../../../src/keys/stored-key.ts";
import { unlimited } from "../../../src/limits/limits.ts";
import { eventually } from "../../support/eventually.ts";
import { issuerUrl, nowMs, PaperIssuer, signed, signingKey, type SigningKey } from "../../support/issuer.ts";

const template: Key = {
  id: "file:jobs",
  name: "jobs",
  models: ["small-*"],
  operations: null,
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: false },
  group: null,
  limits: unlimited,
};
const wide: Key = { ...template, id: "file:wide", name: "wide", models: null };

let signing: SigningKey;
let issuer: PaperIssuer;
let clock: { wallMs: number; nowMs: number };
let told: string[];
let issuers: TokenIssuers;
/** The groups of the store by name; null while it is down. */
let stored: Map<string, string> | null;
let storedKeys: Map<string, StoredKey>;
/** Runs after the store was read for a key, and before its answer is there. */
let meanwhile: (() => void) | null;
let isStale: boolean;

const trusted = (rules: TrustedIssuer["rules"]): TrustedIssuer => ({
  name: "ci",
  issuer: issuerUrl,
  audience: "sluice",
  jwksUri: `${issuerUrl}/keys`,
  lifetimeMs: 3_600_000,
  rules,
});
const rule = (
  key: Key,
  claims: Record<string, string> = {},
  { storedGroup = null, storedKey = null }: { storedGroup?: string | null; storedKey?: string | null } = {},
): TrustedIssuer["rules"][number] => ({
  key,
  claims: new Map(Object.entries(claims)),
  storedKey,
  storedGroup,
  namesGroup: storedGroup !== null,
});

beforeAll(async () => {
  signing = await signingKey("one");
});

beforeEach(() => {
  issuer = new PaperIssuer();
  issuer.keys = [signing.publicJwk];
  clock = { wallMs: nowMs, nowMs: 5_000 };
  told = [];
  stored = new Map();
  storedKeys = new Map();
  meanwhile = null;
  isStale = false;
  issuers = new TokenIssuers({
    fetchText: issuer.fetchText,
    nowMs: () => clock.nowMs,
    wallMs: () => clock.wallMs,
    storedKey: (name) => {
      const answer = stored === null ? "unavailable" : (storedKeys.get(name) ?? null);
      meanwhile?.();
      return Promise.resolve(answer);
    },
    isStale: () => isStale,
    storedGroupId: (name) => Promise.resolve(stored === null ? "unavailable" : (stored.get(name) ?? null)),
    onRefused: (name, reason) => told.push(`${name}: ${reason}`),
  });
  issuers.configure([trusted([rule(template)])], false);
});

const opened = async (token: string): Promise<unknown> => issuers.find(`digest of ${token}`, token);

describe("a token of an issuer", () => {
  test("is a key of its subject, with the permissions of the rule's key, until it expires", async () => {
    expect(await opened(await signed(signing))).toEqual({
      ...template,
      id: "jwt:ci:job-1",
      name: "ci:job-1",
      expiresMs: nowMs + 660_000,
      basis: "file:jobs",
      inGroupOfBasis: true,
    });
  });

  test("is verified once, and then found without waiting", async () => {
    const token = await signed(signing);
    await opened(token);
    issuer.down = "it is down";
    const again = issuers.find(`digest of ${token}`, token);
    expect(again).not.toBeInstanceOf(Promise);
    expect(again).toMatchObject({ id: "jwt:ci:job-1" });
    clock.wallMs += 700_000;
    expect(await opened(token)).toBeNull();
  });

  test("ends with the rule's key", async () => {
    issuers.configure([trusted([rule({ ...template, expiresMs: nowMs + 1000 })])], false);
    expect(await opened(await signed(signing))).toMatchObject({ expiresMs: nowMs + 1000 });
  });

  test("has the permissions of the first rule whose claims all match", async () => {
    const rules = [rule(wide, { repository: "acme/*", "build.protected": "true" }), rule(template, { groups: "jobs" })];
    issuers.configure([trusted(rules)], false);
    const of = async (claims: Record<string, unknown>): Promise<unknown> => opened(await signed(signing, claims));
    expect(await of({ repository: "acme/app", build: { protected: true } })).toMatchObject({ models: null });
    expect(await of({ repository: "acme/app", build: { protected: false }, groups: ["x", "jobs"] })).toMatchObject({ models: ["small-*"] });
    expect(await of({ repository: "evil/acme/app", build: { protected: true } })).toBeNull();
    expect(await of({ repository: { toString: "acme/app" }, groups: null })).toBeNull();
    expect(told).toEqual(["ci: no rule of the issuer matches its claims"]);
  });

  test("is matched by claims in claims whose names have dots, as a cluster of Kubernetes makes them", async () => {
    const claims = { "kubernetes.io.namespace": "prod", "kubernetes.io.serviceaccount.name": "web-*", "a.b": "c" };
    issuers.configure([trusted([rule(template, claims)])], false);
    const of = async (given: Record<string, unknown>): Promise<unknown> => opened(await signed(signing, given));
    const account = { name: "web-1", uid: "900f80ed" };
    expect(await of({ "kubernetes.io": { namespace: "prod", serviceaccount: account }, a: { b: "c" } })).toMatchObject({ group: null });
    expect(await of({ "kubernetes.io": { namespace: "test", serviceaccount: account }, a: { b: "c" } })).toBeNull();
    expect(await of({ "kubernetes.io": { namespace: "prod", serviceaccount: account }, "a.b": "d", a: { b: "c" } })).toBeNull();
    expect(await of({ "kubernetes.io": ["prod"], kubernetes: { io: null }, a: { b: "c" } })).toBeNull();
  });

  test("belongs to the group of the store that its rule names, as long as there is one", async () => {
    issuers.configure([trusted([rule(template, {}, { storedGroup: "web" })])], false);
    const token = await signed(signing);
    expect(await opened(token)).toBeNull();
    expect(told).toEqual(["ci: the group 'web' of its rule does not exist: create it, or change the rule"]);
    stored?.set("web", "grp_1");
    issuers.groupsChanged();
    expect(await opened(token)).toMatchObject({ id: "jwt:ci:job-1", group: "grp_1", models: ["small-*"] });
    expect(await opened(token)).not.toHaveProperty("inGroupOfBasis");
    // Another group has the name now.
    stored?.set("web", "grp_2");
    issuers.groupsChanged();
    expect(await opened(token)).toMatchObject({ group: "grp_2" });
    stored = null;
    issuers.groupsChanged();
    expect(await opened(token)).toBe("unavailable");
  });

  describe("whose rule names a key of the store", () => {
    const inStore: StoredKey = {
      ...template,
      id: "k-1",
      models: ["large-*"],
      group: "grp_1",
      owner: "ada",
      note: null,
      createdMs: 1,
      revokedMs: null,
      lastUsedMs: null,
      tokens: [],
    };
    const ofStore = { ...template, id: "", name: "", models: null };

    test("has the permissions and the group of that key as they are now", async () => {
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots" })])], false);
      const token = await signed(signing);
      storedKeys.set("robots", inStore);
      expect(await opened(token)).toEqual({
        ...template,
        id: "jwt:ci:job-1",
        name: "ci:job-1",
        models: ["large-*"],
        group: "grp_1",
        expiresMs: nowMs + 660_000,
        basis: "k-1",
        inGroupOfBasis: true,
      });
      expect(issuers.invalidate()).toEqual(["k-1"]);
      storedKeys.set("robots", { ...inStore, models: ["small-*"], expiresMs: nowMs + 1000 });
      issuers.keysChanged(["another"]);
      expect(await opened(token)).toMatchObject({ models: ["large-*"] });
      issuers.keysChanged(["k-1"]);
      expect(await opened(token)).toMatchObject({ models: ["small-*"], expiresMs: nowMs + 1000 });
    });

    const whileVerified: readonly (readonly [what: string, happens: () => void])[] = [
      ["is told of", () => issuers.keysChanged(["k-1"])],
      ["is one of too many to be told of", () => expect(issuers.invalidate()).toEqual([])],
    ];
    test.each(whileVerified)("is refused if the key is revoked while it is verified first, and that %s", async (_, happens) => {
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots" })])], false);
      storedKeys.set("robots", inStore);
      meanwhile = () => {
        meanwhile = null;
        storedKeys.set("robots", { ...inStore, revokedMs: 5 });
        happens();
      };
      const token = await signed(signing);
      expect(await opened(token)).toBeNull();
      expect(await opened(token)).toBeNull();
    });

    test("is not accepted if keys change again and again while it is verified", async () => {
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots" })])], false);
      storedKeys.set("robots", inStore);
      meanwhile = () => issuers.keysChanged(["another"]);
      const token = await signed(signing);
      expect(await opened(token)).toBe("unavailable");
      meanwhile = null;
      expect(await opened(token)).toMatchObject({ id: "jwt:ci:job-1" });
    });

    test("is refused if its subject is blocked, or its issuer removed, while it is verified", async () => {
      const rules = [rule(ofStore, {}, { storedKey: "robots" })];
      issuers.configure([trusted(rules)], false);
      storedKeys.set("robots", inStore);
      meanwhile = () => void issuers.setBlocked([{ issuer: "ci", subject: "job-1" }]);
      expect(await opened(await signed(signing))).toBeNull();
      meanwhile = () => issuers.configure([], false);
      expect(await opened(await signed(signing, { sub: "job-2" }))).toBeNull();
    });

    test("is not served while the store was not reached for too long, and others are", async () => {
      issuers.configure([trusted([rule(ofStore, { tier: "stored" }, { storedKey: "robots" }), rule(template)])], false);
      storedKeys.set("robots", inStore);
      const [token, other] = [await signed(signing, { tier: "stored" }), await signed(signing)];
      for (const one of [token, other]) expect(await opened(one)).toMatchObject({ id: "jwt:ci:job-1" });
      isStale = true;
      expect(await opened(token)).toBe("unavailable");
      expect(await opened(other)).toMatchObject({ id: "jwt:ci:job-1" });
      isStale = false;
      expect(await opened(token)).toMatchObject({ basis: "k-1" });
    });

    test("belongs to the group of the rule, where that names one", async () => {
      storedKeys.set("robots", inStore);
      issuers.configure([trusted([rule({ ...ofStore, group: "file-group:web" }, {}, { storedKey: "robots" })])], false);
      expect(await opened(await signed(signing))).toMatchObject({ group: "file-group:web", models: ["large-*"] });
      stored?.set("ads", "grp_2");
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots", storedGroup: "ads" })])], false);
      expect(await opened(await signed(signing))).toMatchObject({ group: "grp_2", models: ["large-*"] });
    });

    const gone: readonly (readonly [what: string, key: StoredKey | null, reason: string])[] = [
      ["missing", null, "neither in the file nor in the store: create it, or change the rule"],
      ["revoked", { ...inStore, revokedMs: 5 }, "was revoked: create it, or change the rule"],
      ["expired", { ...inStore, expiresMs: nowMs }, "has expired: create it, or change the rule"],
    ];
    test.each(gone)("is refused while the key is %s, and the reason is told to the operator", async (_, key, reason) => {
      if (key !== null) storedKeys.set("robots", key);
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots" })])], false);
      expect(await opened(await signed(signing))).toBeNull();
      expect(told).toEqual([`ci: the key 'robots' of its rule ${reason.startsWith("neither") ? `is ${reason}` : reason}`]);
    });

    test("is neither accepted nor refused while the store cannot be asked", async () => {
      issuers.configure([trusted([rule(ofStore, {}, { storedKey: "robots" })])], false);
      stored = null;
      expect(await opened(await signed(signing))).toBe("unavailable");
    });
  });

  test("whose key is known is accepted while any number of others wait for an issuer that hangs", async () => {
    expect(await opened(await signed(signing))).toMatchObject({ id: "jwt:ci:job-1" });
    const valid = await signed(signing, { sub: "job-2" });
    const unknown = await signed(await signingKey("forged"));
    const { promise: hangs, resolve } = Promise.withResolvers<void>();
    issuer.hangs = hangs;
    clock.nowMs += 10_000;
    const before = issuer.asked.length;
    const waiting = Array.from({ length: 2_000 }, async (_, at) => issuers.find(`forged ${at}`, unknown));
    await eventually("the issuer to be asked, and a token to be refused", () => issuer.asked.length > before && told.length > 0);
    expect(told).toEqual(["ci: the keys of the issuer are not known: too many tokens wait for new keys of the issuer"]);
    expect(await opened(valid)).toMatchObject({ id: "jwt:ci:job-2" });
    resolve();
    const answers = await Promise.all(waiting);
    expect([answers.filter((answer) => answer === "unavailable").length, answers.filter((answer) => answer === null).length]).toEqual([
      1_000, 1_000,
    ]);
    clock.nowMs += 10_000;
    expect(await opened(await signed(signing, { sub: "job-3" }))).toMatchObject({ id: "jwt:ci:job-3" });
  });

  test("is remembered across changes of groups if no rule names one of the store", async () => {
    const token = await signed(signing);
    await opened(token);
    issuers.groupsChanged();
    expect(issuers.find(`digest of ${token}`, token)).not.toBeInstanceOf(Promise);
  });

  test("that is forged opens nothing, the reason is told to the operator, and it is not verified again at once", async () => {
    const token = await signed(await signingKey("one"));
    expect(await opened(token)).toBeNull();
    expect(told).toEqual(["ci: its signature is wrong"]);
    expect(issuers.find(`digest of ${token}`, token)).toBeNull();
  });

  test("whose issuer cannot be asked is not called wrong", async () => {
    issuer.down = "connection refused";
    expect(await opened(await signed(signing))).toBe("unavailable");
    expect(told[0]).toContain("connection refused");
  });

  test("of a blocked subject, or of a blocked issuer, opens nothing, also if it was accepted before, until it is unblocked", async () => {
    const token = await signed(signing);
    const other = await signed(signing, { sub: "job-2" });
    await opened(token);
    expect(issuers.setBlocked([{ issuer: "ci", subject: "job-1" }])).toBe(true);
    expect(await opened(token)).toBeNull();
    expect(await opened(other)).toMatchObject({ id: "jwt:ci:job-2" });
    expect(["jwt:ci:job-1", "jwt:ci:job-2", "jwt:gone:job-1", "file:ci"].map((id) => issuers.isGone(id))).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(issuers.setBlocked([{ issuer: "ci", subject: null }])).toBe(true);
    expect(await opened(other)).toBeNull();
    expect(issuers.isGone("jwt:ci:job-2")).toBe(true);
    issuers.setBlocked([]);
    clock.nowMs += 3_000;
    expect(await opened(token)).toMatchObject({ id: "jwt:ci:job-1" });
  });

  test("that was accepted is not forgotten when other things change in the store", async () => {
    const token = await signed(signing);
    issuers.setBlocked([{ issuer: "ci", subject: "else" }]);
    await opened(token);
    expect(issuers.setBlocked([{ issuer: "ci", subject: "else" }])).toBe(false);
    expect(issuers.find(`digest of ${token}`, token)).not.toBeInstanceOf(Promise);
  });

  test("is verified with keys from where the configuration lets them be now, and not at the start", async () => {
    const elsewhere = { ...trusted([rule(template)]), jwksUri: "https://keys.example/jwks" };
    for (const allowPrivate of [false, true, true, false]) {
      issuers.configure([elsewhere], allowPrivate);
      expect(await opened(await signed(signing))).toMatchObject({ id: "jwt:ci:job-1" });
    }
    // The keys that are known are kept where nothing changes.
    expect(issuer.reaches).toEqual(["public", "any", "public"]);
  });

  test("of an issuer that was removed opens nothing", async () => {
    const token = await signed(signing);
    await opened(token);
    issuers.configure([], false);
    expect(await opened(token)).toBeUndefined();
  });
});

describe("what is no token of an issuer", () => {
  test.each(["sk-gw_something", "eyJ", "eyJh.e30", "eyJh.!.!", "eyJhbGciOiJub25lIn0.bnVsbA.", "eyJhbGciOiJub25lIn0.eyJpc3MiOjF9."])(
    "may be a key (%j)",
    (token) => {
      expect(issuers.find("digest", token)).toBeUndefined();
    },
  );

  test("may be a token of another issuer, which may be a key too", async () => {
    expect(await opened(await signed(signing, { iss: "https://other.example" }))).toBeUndefined();
    expect(issuer.asked).toEqual([]);
  });
});

describe("the id of a subject", () => {
  test("is readable where it can be, and no subject can take that of another", () => {
    expect(tokenKeyId("ci", "repo:acme/app:ref:refs/heads/main")).toBe("jwt:ci:repo:acme/app:ref:refs/heads/main");
    const long = tokenKeyId("ci", "x".repeat(500));
    expect(long).toMatch(/^jwt:ci:sha256-[0-9a-f]{64}$/);
    const copied = long.slice("jwt:ci:".length);
    const ids = ["a", "a b", "a\n", "ä", "x".repeat(500), "x".repeat(501), copied].map((subject) => tokenKeyId("ci", subject));
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[\x21-\x7e]{1,200}$/);
  });
});
