// Needs: alone. It makes promises about real time.
import { expect, setDefaultTimeout, test } from "bun:test";
import { KeyCache } from "../../src/gateway/admission/key-cache.ts";
import type { OpenedKey } from "../../src/gateway/storage.ts";
import { KeyRing } from "../../src/http/authenticate.ts";
import { makeToken } from "../../src/keys/token.ts";
import { newKey } from "../support/new-key.ts";

setDefaultTimeout(60_000);

/** Why a token opens nothing. `twin` is as unknown as the first: it shows what the measure makes of nothing at all. */
const kinds = ["unknown", "wrongSecret", "revoked", "twin", "fresh"] as const;
type Kind = (typeof kinds)[number];

const samples = 50_000;
const tokensEach = 2_500;
/** Of Welch's t: beyond it, two ways of refusing can be told apart. */
const distinct = 4.5;

/**
 * Welch's |t| against an unknown token, the middle of some rounds: a busy machine can make two samples differ in one of them, and
 * a leak is there in all. On the look-up itself, without a socket, whose noise would hide everything.
 */
let comparison: Promise<Readonly<Record<Kind, number>>> | null = null;

async function compared(): Promise<Readonly<Record<Kind, number>>> {
  const rounds: Times[] = [];
  for (let round = 0; round < roundsMax; round++) rounds.push(measured(await lookUp()));
  const middle = (kind: Kind): number => medianOf(rounds.map((times) => welch(times.unknown, times[kind])));
  return Object.fromEntries(kinds.map((kind) => [kind, middle(kind)])) as Record<Kind, number>;
}

const roundsMax = 3;

test("S04: an unknown token and one with a wrong secret are refused in the same time", async () => {
  const { twin, wrongSecret, fresh } = await (comparison ??= compared());
  expect(wrongSecret).toBeLessThan(distinct);
  // The measure is worth something: it sees no difference where there is none, and one where a token has to be asked for.
  expect(twin).toBeLessThan(distinct);
  expect(fresh).toBeGreaterThan(distinct);
});

test("S04: an unknown token and one that was revoked are refused in the same time", async () => {
  const { revoked } = await (comparison ??= compared());
  expect(revoked).toBeLessThan(distinct);
});

interface LookUp {
  readonly find: (token: string) => unknown;
  readonly tokens: Readonly<Record<Kind, readonly string[]>>;
}

/** The tokens of all kinds are made, hashed and remembered in one random order: otherwise what differs is where they lie in memory. */
async function lookUp(): Promise<LookUp> {
  const stored = new Map<string, OpenedKey | null>();
  const ports = { nowMs: () => 0, wallMs: () => 0, used: () => {} };
  const cache = new KeyCache({ ...ports, byDigest: async (digest) => stored.get(digest) ?? null });
  let digested = "";
  const ring = new KeyRing([], random(32), (digest, token) => {
    digested = digest;
    return cache.find(digest, token);
  });
  const made = shuffled(Array.from({ length: kinds.length * tokensEach }, (_, at) => kinds[at % kinds.length]!)).map((kind) => ({
    kind,
    token: inOnePiece(kind === "wrongSecret" ? withIdOf(makeToken(random).token) : makeToken(random).token),
  }));
  for (const [at, { kind, token }] of shuffled(made).entries()) {
    await ring.find(token);
    const key = { ...newKey, id: `key ${at}`, tokens: [], createdMs: 0, lastUsedMs: null, revokedMs: 1, revision: 1 };
    stored.set(digested, kind === "revoked" ? { key, tokenExpiresMs: null } : null);
  }
  cache.invalidate();
  for (const { kind, token } of shuffled(made)) if (kind !== "fresh") expect(await ring.find(token)).toBeNull();
  const of = (kind: Kind): readonly string[] => made.filter((one) => one.kind === kind).map(({ token }) => token);
  const tokens = Object.fromEntries(kinds.map((kind) => [kind, of(kind)])) as LookUp["tokens"];
  return { find: (token) => ring.find(token), tokens };
}

type Times = Readonly<Record<Kind, Float64Array>>;

/** How long each kind takes, in a random order, without the slowest tenth. */
function measured({ find, tokens }: LookUp): Times {
  const times = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]));
  const compared = kinds.filter((kind) => kind !== "fresh");
  for (let at = 0; at < samples * 2; at++) {
    const kind = compared[Math.floor(Math.random() * compared.length)]!;
    const token = tokens[kind][Math.floor(Math.random() * tokensEach)]!;
    times.get(kind)!.push(timed(find, token));
  }
  // Each of them only once: after that it is known.
  for (const token of tokens.fresh) times.get("fresh")!.push(timed(find, token));
  return Object.fromEntries(kinds.map((kind) => [kind, quickest(times.get(kind)!)])) as Times;
}

function timed(find: (token: string) => unknown, token: string): number {
  const fromNs = Bun.nanoseconds();
  void find(token);
  return Bun.nanoseconds() - fromNs;
}

function quickest(times: readonly number[]): Float64Array {
  return Float64Array.from(times)
    .sort()
    .slice(0, Math.floor(times.length * 0.9));
}

/** Welch's |t|. */
function welch(ones: Float64Array, others: Float64Array): number {
  const [one, other] = [meanOf(ones), meanOf(others)];
  return Math.abs(one - other) / Math.sqrt(varianceOf(ones, one) / ones.length + varianceOf(others, other) / others.length);
}

function meanOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function varianceOf(values: Float64Array, mean: number): number {
  return values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;
}

/** Another token with the same public id, and a checksum that fits. */
function withIdOf(token: string): string {
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const id = [...token.slice(6, 18)].map((character) => alphabet.indexOf(character));
  return makeToken((count) => (count === 12 ? Uint8Array.from(id) : random(count))).token;
}

/** Not a rope of pieces, which the first to look at it would have to join. */
function inOnePiece(token: string): string {
  return Buffer.from(token).toString("latin1");
}

function random(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

function shuffled<T>(values: readonly T[]): readonly T[] {
  const mixed = [...values];
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [mixed[at], mixed[other]] = [mixed[other]!, mixed[at]!];
  }
  return mixed;
}
