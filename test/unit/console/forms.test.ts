import { describe, expect, test } from "bun:test";
import { signal } from "@preact/signals";
import {
  balanceChange,
  balanceDraft,
  channelEntry,
  entryChange,
  ifUnchanged,
  modelsOf,
} from "../../../src/console/pages/channels/channel-entry.ts";
import { neighbourTier, tiersOf } from "../../../src/console/pages/channels/tiers.ts";
import { ApiError } from "../../../src/console/core/api.ts";
import { troubleOf } from "../../../src/console/core/query.ts";
import { askedOf } from "../../../src/console/pages/requests/request-filters.ts";
import { fullness, limitsText, listOf } from "../../../src/console/core/limits.ts";
import { keyBody } from "../../../src/console/pages/keys/key-body.ts";

describe("the form of a channel", () => {
  test("leaves out what is empty, so that the gateway's defaults apply", () => {
    expect(channelEntry({ name: "main", provider: " ", base_url: "", models: "", tier: "", weight: "", secret: "" })).toEqual({
      entry: {},
    });
    expect(channelEntry({ base_url: " https://x/v1 ", tier: "2", weight: "0.5", secret: " s3cret ", models: "a" })).toEqual({
      entry: { base_url: "https://x/v1", tier: 2, weight: 0.5, models: { a: "a" } },
      secrets: ["s3cret"],
    });
  });

  test("takes a model in each line, with another name after an equals sign", () => {
    expect(modelsOf(" fast = llama-3 \n\nsmall\nodd = a=b")).toEqual({ fast: "llama-3", small: "small", odd: "a=b" });
    expect(modelsOf("\n")).toBeNull();
  });
});

test("a channel is changed by what differs, and what is removed has its default again", () => {
  const before = { provider: "p", tier: 2, headers: { a: "hidden" }, models: ["x"] };
  expect(entryChange(before, JSON.stringify({ ...before, tier: 3, models: undefined }))).toEqual({ tier: 3, models: null });
  expect(entryChange(before, JSON.stringify(before))).toEqual({});
  expect([entryChange(before, "{"), entryChange(before, "[]"), entryChange(before, "null")]).toEqual([null, null, null]);
});

test("of a tier and a weight, only what differs from what was shown is changed", () => {
  const draft = balanceDraft({ tier: 2, weight: 0.5, etag: "a" });
  expect(balanceChange(draft)).toEqual({});
  expect(balanceChange({ ...draft, tier: "3" })).toEqual({ tier: 3 });
  expect(balanceChange({ ...draft, tier: "2.0", weight: "0" })).toEqual({ weight: 0 });
  expect(balanceChange(balanceDraft({ tier: null, weight: null, etag: null }))).toEqual({});
});

test("a change is made only if the channel is as it was shown, where that can be told", () => {
  expect([ifUnchanged("a"), ifUnchanged(null)]).toEqual([{ headers: { "if-match": '"a"' } }, {}]);
});

test("a channel moves between the tiers that there are, and beyond the last into a new one", () => {
  const tiers = tiersOf([
    { name: "b", tier: 5 },
    { name: "a", tier: 5 },
    { name: "c", tier: 1 },
    { name: "absent", tier: null },
  ]);
  expect(tiers.map(([tier, some]) => [tier, some.map(({ name }) => name)])).toEqual([
    [1, ["c"]],
    [5, ["a", "b"]],
  ]);
  expect([neighbourTier([1, 5], 5, -1), neighbourTier([1, 5], 1, 1), neighbourTier([1, 5], 5, 1)]).toEqual([1, 5, 6]);
  expect([neighbourTier([1, 5], 1, -1), neighbourTier([0, 5], 0, -1)]).toEqual([0, null]);
});

test("the filters of the requests are asked as the admin API takes them, a status only when it is whole", () => {
  expect(askedOf({ key: "app", status: "5X", min_seconds: "" })).toEqual({ key: "app", status: "", min_took_ms: "" });
  expect(askedOf({ status: "5XX", min_seconds: "1.5" })).toEqual({ status: "5xx", min_took_ms: "1500" });
});

describe("the form of a key", () => {
  test("says no limit where a field is empty", () => {
    expect(
      keyBody({ name: " laptop ", owner: "", note: "", models: "", rpm: "", budget_usd: "", budget_period: "month", expires_at: "" }, null),
    ).toEqual({
      name: "laptop",
      owner: null,
      note: null,
      models: null,
      limits: {},
      expires_at: null,
    });
  });

  test("asks for a group only where there are groups, and an empty one is none", () => {
    expect(keyBody({ name: "a" }, null)).not.toHaveProperty("group");
    expect([keyBody({ name: "a", group: "" }, null)["group"], keyBody({ name: "a", group: " red " }, null)["group"]]).toEqual([
      null,
      "red",
    ]);
  });

  test("sends amounts as they were typed, so that no digit is lost", () => {
    const body = keyBody(
      {
        name: "a",
        models: "fast, small*\nlarge",
        rpm: "60",
        budget_usd: "0.10",
        budget_period: "day",
        expires_at: "2027-01-01",
      },
      null,
    );
    expect(body).toMatchObject({
      models: ["fast", "small*", "large"],
      limits: { rpm: 60, budget_usd: "0.10", budget_period: "day" },
      expires_at: "2027-01-01",
    });
    expect(listOf(" , ,\n")).toEqual([]);
  });
});

test("limits that the form of a key does not show stay as they are", () => {
  const hidden = { characters: 9, per_model: [{ model: "m", rpm: 2 }], budgets: [{ name: "chats", budget_usd: 5 }] };
  const before = { expires_at: "2027-01-01T12:30:00.000Z", limits: { rpm: 1, budget_usd: 3, ...hidden } };
  expect(keyBody({ name: "a", rpm: "" }, before)["limits"]).toEqual(hidden);
  expect(keyBody({ name: "a", expires_at: "2027-01-01" }, before)["expires_at"]).toBe("2027-01-01T12:30:00.000Z");
  expect(keyBody({ name: "a", expires_at: "2027-01-02" }, before)["expires_at"]).toBe("2027-01-02");
});

test("limits are told in a few words", () => {
  expect(limitsText({})).toBe("none");
  expect(limitsText({ budget_usd: 5, budget_period: "day", rpm: 60, concurrency: 2, per_model: [{ model: "a" }] })).toBe(
    "$5.00 a day, 60 requests/min, 2 at a time, 1 for single models",
  );
  const budget = { name: "chats", operations: ["chat" as const], budget_usd: 5 };
  expect(limitsText({ budgets: [budget] })).toBe("1 budget for some calls");
  expect(limitsText({ rpm: 60, budgets: [budget, { ...budget, name: "others" }] })).toBe("60 requests/min, 2 budgets for some calls");
});

test("a budget needs attention from four fifths on", () => {
  expect(fullness(1, 10)).toEqual({ share: 0.1, tone: "" });
  expect(fullness(8, 10).tone).toBe("warn");
  expect(fullness(12, 10)).toEqual({ share: 1, tone: "bad" });
  expect(fullness(0, 0)).toEqual({ share: 1, tone: "bad" });
});

test("another try asks again for everything that failed, and for nothing else", () => {
  const asked: string[] = [];
  const answer = (name: string, problem: string | null) => ({
    error: signal(problem === null ? null : new ApiError(500, "unknown", problem, null, null)),
    reload: () => void asked.push(name),
  });
  const { error, onRetry } = troubleOf(answer("keys", null), answer("usage", "No usage."), answer("groups", "No groups."));
  expect(error?.message).toBe("No usage.");
  onRetry();
  expect(asked).toEqual(["usage", "groups"]);
  expect(troubleOf(answer("keys", null)).error).toBeNull();
});
