import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root, sources } from "../../scripts/source-tree.ts";

interface Term {
  readonly name: string;
  readonly meaning: string;
  /** The types that carry it. */
  readonly types: readonly string[];
}

const terms: readonly Term[] = readFileSync(join(root, "docs/glossary.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| term |"))
  .map((line) => {
    const [name = "", meaning = "", code = ""] = line.slice(2, -1).split(" | ");
    return { name, meaning: meaning.trim(), types: [...code.matchAll(/`([A-Z]\w*)`/g)].map(([, type = ""]) => type) };
  });

/** Where each type of `src/` is declared. */
const declarations = new Map<string, string[]>();
for (const { path, code } of sources) {
  for (const [, name = ""] of code.matchAll(
    /^\s*(?:export )?(?:default )?(?:abstract )?(?:interface|class|type|enum) ([A-Z]\w*)(?=[\s<]*[={<]|\s+(?:extends|implements)\b)/gm,
  )) {
    declarations.set(name, [...(declarations.get(name) ?? []), path]);
  }
}

/** Names of types that were given up, each with the word that is used now. Some of them are good English, and may still name a value. */
const retiredTypes: Readonly<Record<string, string>> = {
  Adapter: "Dialect",
  Ahead: "Candidates",
  Answer: "CallResult, or the name of what is answered",
  Arrival: "InboundCall",
  AudioWish: "AudioConversion",
  Bell: "Timer",
  Bells: "Timers",
  Board: "UpstreamState",
  BodyEnd: "TruncationCheck",
  ConnectionHost: "ListenerContext",
  ConnectionUser: "ResponseHandler",
  Course: "CallExecution",
  Crowd: "GcAfterBurst",
  Door: "Endpoint",
  Entry: "ParsedRequest, or the name of what is listed",
  Found: "RouteMatch, PriceMatches",
  HeadMemory: "HeaderCache",
  Held: "NotReady",
  Keeper: "RateLimitStore",
  Kept: "Persisted",
  Look: "LimitStatus",
  Looks: "LimitStatuses",
  ModelsWorld: "ModelsContext",
  Need: "ReservationRequest",
  Of: "a name that says of what",
  Overrun: "LimitExceeded",
  Place: "ConcurrencySlot, or the name of what is listed",
  Purse: "BudgetLease",
  RateKeeper: "RateLimitStore",
  Refusal: "PlanRefusal, ReservationRefused, BudgetRefused",
  RuntimeMade: "StoredConfiguration",
  Standing: "RateLimitStatus, BreakerState",
  Surroundings: "AppOptions",
  Taking: "Reservation",
  Tally: "SlidingCounter",
  Ticket: "AttemptReporter",
  Trial: "Attempt",
  TrialUser: "Attempt",
  Tried: "FailedAttempt",
  Try: "AttemptRecord",
  Turn: "WaitingRequest",
  Turns: "the yaml package reads the file",
  Visit: "InboundCall",
  Waiter: "WaitingReservation, BudgetWaiter",
  Watch: "AttemptTimeouts",
};

/** Names that were given up wherever they stand: of types, functions, fields or variables. */
const retiredNames: Readonly<Record<string, string>> = {
  AudioCutting: "AudioSplit",
  abreast: "admissionWindow",
  afterHearing: "timerWithLagGrace",
  BudgetAccount: "LeasedBudget",
  BudgetAsk: "BudgetHoldRequest",
  demandAt: "expectedDemand",
  giveBack: "return, release",
  giveBackSoon: "returnSoon",
  HeadMemory: "HeaderCache",
  inHand: "leaseLeft",
  inOneGo: "the yaml package reads the file",
  inVain: "clear",
  KeptHold: "HoldRenewal",
  letGo: "release, abandon",
  MarkedHint: "PublishedHint",
  mayResort: "admitsAsLastResort",
  murmur: "sendKeepAlive",
  NoToken: "BearerProblem",
  owedOf: "unreportedOf",
  Purse: "BudgetLease",
  RateKeeper: "RateLimitStore",
  StorageTrouble: "StorageError",
  surprises: "configWarnings",
  TokenMark: "HashedToken",
  TrialUser: "Attempt",
  truthOf: "actualDemand",
  usualKey: "defaultKey",
};

describe("the glossary", () => {
  test("defines some sixty terms, in alphabetical order, each in a sentence or two", () => {
    expect(terms.length).toBeGreaterThanOrEqual(60);
    const names = terms.map(({ name }) => name);
    expect(names).toEqual(names.toSorted((one, other) => one.localeCompare(other, "en")));
    expect(new Set(names).size).toBe(names.length);
    expect(terms.filter(({ meaning }) => !/^[A-Z].{20,200}\.$/.test(meaning)).map(({ name }) => name)).toEqual([]);
  });

  test("names types that exist", () => {
    expect(terms.flatMap(({ types }) => types).filter((type) => !declarations.has(type))).toEqual([]);
  });
});

test("no two types of src have the same name, exported or not", () => {
  expect(declarations.size).toBeGreaterThan(500);
  const twice = [...declarations].filter(([, paths]) => paths.length > 1);
  expect(twice.map(([type, paths]) => `${type}: ${paths.join(", ")}`)).toEqual([]);
});

describe("a retired word", () => {
  test("names no type", () => {
    const found = Object.entries(retiredTypes).flatMap(([name, now]) =>
      (declarations.get(name) ?? []).map((path) => `${path}: ${name} (now: ${now})`),
    );
    expect(found).toEqual([]);
  });

  test("is no identifier", () => {
    const found = sources.flatMap(({ path, code }) => {
      const used = new Set(withoutStrings(code).match(/[A-Za-z_$][\w$]*/g));
      return Object.entries(retiredNames)
        .filter(([name]) => used.has(name))
        .map(([name, now]) => `${path}: ${name} (now: ${now})`);
    });
    expect(found).toEqual([]);
  });

  test("is no term of the glossary", () => {
    const retired = new Set([...Object.keys(retiredTypes), ...Object.keys(retiredNames)]);
    expect(terms.filter(({ name, types }) => [pascalCase(name), ...types].some((word) => retired.has(word)))).toEqual([]);
  });
});

function pascalCase(term: string): string {
  return term
    .replace(/\(.*\)/, "")
    .split(/[^A-Za-z]+/)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join("");
}

/** Templates stay: they hold code. */
function withoutStrings(code: string): string {
  return code.replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""');
}
