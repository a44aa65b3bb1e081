import { expect, test } from "bun:test";
import fc from "fast-check";
import { Cancellation } from "../../../src/gateway/cancellation.ts";
import { LiveCalls } from "../../../src/gateway/admission/live-calls.ts";
import { failure } from "../../../src/operations/failure.ts";

const gone = failure("shutting_down", "the gateway is shutting down");

test("exactly the calls under way are counted, named and ended, in whatever order they came and went", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(40), { maxLength: 60 }), (steps) => {
      const live = new LiveCalls();
      const open = new Set<Cancellation>();
      const ended: Cancellation[] = [];
      for (const step of steps) {
        const call = [...open][step];
        if (call === undefined) {
          const begun = new Cancellation();
          begun.keyId = `key-${step % 3}`;
          live.begin(begun);
          open.add(begun);
        } else {
          live.end(call);
          live.end(call);
          open.delete(call);
          ended.push(call);
        }
        expect(live.size).toBe(open.size);
      }
      expect([...live.keyIds()].toSorted()).toEqual([...new Set([...open].map(({ keyId }) => keyId!))].toSorted());
      live.cancelKey("key-1", gone);
      for (const call of open) expect(call.failure).toBe(call.keyId === "key-1" ? gone : null);
      live.cancelAll(gone);
      for (const call of open) expect(call.failure).toBe(gone);
      for (const call of ended) expect(call.failure).toBeNull();
    }),
  );
});

test("the calls of tokens that have their permissions from a key end with it, and those of others of the same subject do not", () => {
  const live = new LiveCalls();
  const begun = (key: { readonly id: string; readonly basis?: string }): Cancellation => {
    const call = new Cancellation();
    call.isOf(key);
    live.begin(call);
    return call;
  };
  const [own, token, same] = [begun({ id: "k-1" }), begun({ id: "jwt:ci:a", basis: "k-1" }), begun({ id: "jwt:ci:a", basis: "k-2" })];
  expect([...live.keyIds()].toSorted()).toEqual(["jwt:ci:a", "k-1", "k-2"]);
  live.cancelKeyAndTokens("k-1", gone);
  expect([own, token, same].map(({ failure: reason }) => reason)).toEqual([gone, gone, null]);
});

test("the calls of tokens that are in a group because of a key end with it when the group is frozen, and those that a rule put elsewhere do not", () => {
  const live = new LiveCalls();
  const begun = (key: Parameters<Cancellation["isOf"]>[0]): Cancellation => {
    const call = new Cancellation();
    call.isOf(key);
    live.begin(call);
    return call;
  };
  const [own, placed, apart] = [
    begun({ id: "k-1" }),
    begun({ id: "jwt:ci:a", basis: "k-1", inGroupOfBasis: true }),
    begun({ id: "jwt:ci:b", basis: "k-1" }),
  ];
  live.cancelKeyWithGroup("k-1", gone);
  expect([own, placed, apart].map(({ failure: reason }) => reason)).toEqual([gone, gone, null]);
});

test("whoever waits for the last of them is told when it has ended", async () => {
  const live = new LiveCalls();
  const [one, other] = [new Cancellation(), new Cancellation()];
  live.begin(one);
  live.begin(other);
  let idle = false;
  const waiting = live.whenIdle().then(() => (idle = true));
  live.end(one);
  await Promise.resolve();
  expect(idle).toBe(false);
  live.end(other);
  await waiting;
  await live.whenIdle();
});
