import { expect, test } from "bun:test";
import { fieldChangesOf, sameValue } from "../../../src/manage/history/field-changes.ts";
import { undoPlanOf } from "../../../src/manage/history/undo-plan.ts";

const limits = (requests: number) => ({ requests, budget: { nanos: 5, period: "day" } });

test.each([
  [
    "only the members that differ",
    { action: "key.change", detail: { limits: { from: limits(60), to: limits(120) }, note: "changed" } },
    [
      { field: "limits.requests", from: 60, to: 120, hidden: false },
      { field: "note", from: null, to: null, hidden: true },
    ],
  ],
  [
    "what a new thing has",
    { action: "channel.create", detail: { members: ["tier"], settings: { tier: 2 }, last4: ["abcd"] } },
    [
      { field: "last4", from: null, to: ["abcd"], hidden: false },
      { field: "tier", from: null, to: 2, hidden: false },
    ],
  ],
  [
    "what a removed thing had",
    { action: "price.remove", detail: { model: "m" } },
    [{ field: "model", from: "m", to: null, hidden: false }],
  ],
  [
    "that headers and secrets changed, and not how",
    { action: "channel.change", detail: { members: ["headers"], changed: { headers: "changed" }, secrets: "replaced" } },
    [
      { field: "secrets", from: null, to: null, hidden: true },
      { field: "headers", from: null, to: null, hidden: true },
    ],
  ],
  [
    "the names of what changed in the configuration file",
    { action: "config.reload", detail: { changed: ["groups.web"] } },
    [{ field: "changed", from: null, to: ["groups.web"], hidden: false }],
  ],
] as const)("a diff has %s", (_, entry, expected) => {
  expect(fieldChangesOf(entry)).toEqual([...expected]);
});

test("values are compared whatever the order of their members, and null is as good as none", () => {
  expect(sameValue({ a: 1, b: { c: null } }, { b: {}, a: 1 })).toBe(true);
  expect(sameValue([1, 2], [2, 1])).toBe(false);
  expect(sameValue(0, null)).toBe(false);
  expect(sameValue("1", 1)).toBe(false);
});

test.each([
  ["key.revoke", {}, "revoked for good"],
  ["key.rotate", { last4: "abcd" }, "rotate the key again"],
  ["account.remove", { role: "viewer" }, "create the account again"],
  ["token.revoke", {}, "create another"],
  ["account.change", { password: "changed" }, "password"],
  ["key.change", { note: "changed" }, "note"],
  ["channel.change", { members: ["headers"], changed: { headers: "changed" } }, "headers"],
  ["channel.change", { members: ["models"] }, "too long"],
  ["channel.change", { members: ["models"], changed: { models: "changed" } }, "too long"],
  ["channel.remove", {}, "too long"],
  ["channel.remove", { settings: { base_url: "https://****@host/v1" } }, "secret"],
  ["config.reload", { changed: ["groups.web"] }, "configuration file"],
  ["master_key.rotate", {}, "nothing that could be taken back"],
  ["key.change", { damaged: true }, "too long"],
] as const)("what cannot be undone says so before it is tried: %s %j", (action, detail, words) => {
  const plan = undoPlanOf({ action, detail });
  expect("why" in plan ? plan.why : "").toContain(words);
});

test.each([
  ["channel.change", { members: ["tier"], changed: { tier: { from: 1, to: 2 }, headers: "changed" } }, false, 1],
  ["channel.change", { members: [], secrets: "replaced", last4: ["abcd"] }, true, 0],
  ["channel.remove", { settings: { base_url: "https://host/v1" }, last4: ["abcd"] }, true, 0],
  ["channel.remove", { settings: { base_url: "https://host/v1", headers: { a: "****" } }, last4: [] }, false, 1],
  ["account.change", { role: { from: "admin", to: "viewer" }, password: "changed" }, false, 1],
  ["key.change", { name: { from: "a", to: "b" }, models: "changed" }, false, 1],
  ["channel.change", { members: ["tier", "models"], changed: { tier: { from: 1, to: 2 }, models: "changed" } }, false, 1],
] as const)("what is lost although it can be undone is said before: %s %j", (action, detail, needsSecrets, remarks) => {
  const plan = undoPlanOf({ action, detail });
  if ("why" in plan) throw new Error(plan.why);
  expect([plan.needsSecrets, plan.remarks.length]).toEqual([needsSecrets, remarks]);
});
