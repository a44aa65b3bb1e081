import { expect, test } from "bun:test";
import type { ChannelStatus } from "../../../src/manage/channel-context.ts";
import { problemsOf, type ProblemFacts } from "../../../src/manage/problems/problems.ts";

const channel: ChannelStatus = {
  name: "main",
  source: "file",
  provider: null,
  baseUrl: "https://api.example.com",
  tier: 1,
  weight: 1,
  tags: [],
  models: ["m"],
  state: "ready",
  troubles: [],
  learned: [],
  running: 0,
  concurrencyMax: 10,
};
const well: ProblemFacts = {
  storeOk: true,
  stateOk: true,
  insecureTransport: false,
  certificateDaysLeft: null,
  channels: [channel],
  budgets: [],
  traffic: { calls: 0, failed: 0 },
};
const kinds = (change: Partial<ProblemFacts>): readonly string[] => problemsOf({ ...well, ...change }).map(({ kind }) => kind);

test("there is no problem where everything works", () => {
  expect(problemsOf(well)).toEqual([]);
});

test("each thing that is wrong has its own problem, with the next step", () => {
  const trouble = { scope: "host x", state: "open", cause: "rate_limited", untilMs: 5000 } as const;
  expect(kinds({ storeOk: false })).toEqual(["store_lost"]);
  expect(kinds({ stateOk: false })).toEqual(["limits_not_shared"]);
  expect(kinds({ channels: [] })).toEqual(["no_channel"]);
  expect(kinds({ channels: [{ ...channel, state: "cooling", troubles: [trouble] }] })).toEqual(["channel_cooling"]);
  expect(kinds({ channels: [{ ...channel, state: "impaired", troubles: [trouble] }] })).toEqual(["channel_impaired"]);
  expect(kinds({ channels: [{ ...channel, state: "idle" }] })).toEqual(["channel_idle"]);
  expect(kinds({ insecureTransport: true })).toEqual(["insecure_transport"]);
  expect(kinds({ certificateDaysLeft: 3 })).toEqual(["certificate_expires"]);
  const [cooling] = problemsOf({
    ...well,
    channels: [{ ...channel, state: "cooling", troubles: [{ ...trouble, untilMs: 9000 }, trouble] }],
  });
  expect(cooling).toMatchObject({
    subject: "main",
    untilMs: 5000,
    message: expect.stringContaining("rate limited"),
    next: expect.stringMatching(/\.$/),
  });
});

test("failures count where there are enough calls to tell", () => {
  expect(kinds({ traffic: { calls: 10, failed: 10 } })).toEqual([]);
  expect(kinds({ traffic: { calls: 100, failed: 9 } })).toEqual([]);
  expect(kinds({ traffic: { calls: 100, failed: 10 } })).toEqual(["many_failures"]);
});

test("a budget is a problem from four fifths on", () => {
  const budget = { of: "key", id: "id", name: "laptop", models: "", limitNanos: 100, spentNanos: 79, isRefusing: false } as const;
  expect(kinds({ budgets: [budget] })).toEqual([]);
  expect(kinds({ budgets: [{ ...budget, spentNanos: 80 }] })).toEqual(["budget_near"]);
  expect(kinds({ budgets: [{ ...budget, spentNanos: 100 }] })).toEqual(["budget_used_up"]);
});

test("a budget is a problem as soon as it refuses calls, however little of it is spent", () => {
  for (const spentNanos of [40, 80]) {
    const budget = { of: "key", id: "id", name: "laptop", models: "", limitNanos: 100, spentNanos, isRefusing: true } as const;
    expect(problemsOf({ ...well, budgets: [budget] })).toMatchObject([
      { kind: "budget_used_up", message: "The budget of key laptop has too little left: calls that may cost more are refused." },
    ]);
  }
});

test("a budget of a group is a problem in the same words", () => {
  const budget = { of: "group", id: "grp_1", name: "web", models: "gpt-*", limitNanos: 100, spentNanos: 100, isRefusing: false } as const;
  expect(problemsOf({ ...well, budgets: [budget, { ...budget, models: "", spentNanos: 80 }] })).toMatchObject([
    { kind: "budget_used_up", subject: "grp_1", message: "The budget of group web for gpt-* is used up: its calls are refused." },
    { kind: "budget_near", subject: "grp_1", message: "The budget of group web is nearly used up." },
  ]);
});

test("the worst comes first", () => {
  expect(kinds({ insecureTransport: true, storeOk: false })).toEqual(["store_lost", "insecure_transport"]);
});
