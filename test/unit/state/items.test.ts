import { describe, expect, test } from "bun:test";
import type { TextSeal } from "../../../src/operations/conversation/sealed-parts.ts";
import { LocalItems } from "../../../src/state/local-items.ts";
import { DistributedItems, type DistributedTexts } from "../../../src/state/distributed-items.ts";

const hour = 3_600_000;

/** A memory on a clock that the test turns. */
function memory(limits: { readonly bytesMax?: number; readonly keyBytesMax?: number } = {}) {
  let nowMs = 0;
  let due: (() => void) | null = null;
  const after = (_: number, then: () => void): (() => void) => {
    due = then;
    return () => (due = null);
  };
  const items = new LocalItems({ nowMs: () => nowMs, after, ...limits });
  return {
    items,
    pass: (ms: number) => {
      nowMs += ms;
    },
    fire: () => {
      const then = due;
      due = null;
      then?.();
    },
    armed: () => due !== null,
  };
}

const item = (id: string, length = 2): { id: string; json: string } => ({ id, json: `"${"x".repeat(length - 2)}"` });

describe("items of answers in memory", () => {
  test("are found by their key and their id, and by nothing else", () => {
    const { items } = memory();
    items.keep("k", [item("a"), item("b", 4)], hour);
    expect([...items.find("k", ["a", "b", "c"], hour)]).toEqual([
      ["a", '""'],
      ["b", '"xx"'],
    ]);
    expect(items.find("other", ["a", "b"], hour).size).toBe(0);
    expect(items.find('k","a', [""], hour).size).toBe(0);
  });

  test("are forgotten some time after their last use, also where nobody asks for them", () => {
    const { items, pass, fire, armed } = memory();
    items.keep("k", [item("a"), item("b")], hour);
    pass(hour - 1);
    expect(items.find("k", ["a"], hour).size).toBe(1);
    pass(1);
    expect([...items.find("k", ["a", "b"], hour).keys()]).toEqual(["a"]);
    fire();
    expect(items.size).toBeGreaterThan(0);
    pass(hour);
    fire();
    expect(items.size).toBe(0);
    expect(armed()).toBe(false);
  });

  test("take no more memory than they may, over all keys: those that were used longest ago go first", () => {
    const { items } = memory({ bytesMax: 50_000, keyBytesMax: 50_000 });
    for (let at = 0; at < 10; at++) {
      items.keep(`key-${at}`, [item("a", 5_000)], hour);
      items.find("key-0", ["a"], hour);
      expect(items.size).toBeLessThanOrEqual(50_000);
    }
    const left = Array.from({ length: 10 }, (_, at) => at).filter((at) => items.find(`key-${at}`, ["a"], hour).size > 0);
    expect(left).toEqual([0, 7, 8, 9]);
  });

  test("of one key do not displace those of others", () => {
    const { items } = memory({ bytesMax: 50_000, keyBytesMax: 25_000 });
    items.keep("quiet", [item("a", 5_000)], hour);
    for (let at = 0; at < 20; at++) items.keep("busy", [item(`b${at}`, 5_000)], hour);
    items.keep("busy", [item("huge", 20_000)], hour);
    expect(items.find("quiet", ["a"], hour).size).toBe(1);
    expect([...items.find("busy", ["b17", "b18", "b19", "huge"], hour).keys()]).toEqual(["b18", "b19"]);
  });
});

describe("items that replicas share", () => {
  /** Not a cipher, but it tells for whom a text was sealed. */
  const seal: TextSeal = {
    seal: (text, context) => JSON.stringify([context, text]),
    open: (sealed, context) => {
      const [sealedFor, text] = JSON.parse(sealed) as [readonly string[], string];
      return JSON.stringify(sealedFor) === JSON.stringify(context) ? text : null;
    },
  };
  const store = new Map<string, string>();
  const texts: DistributedTexts = {
    put: async (pairs) => {
      for (const [name, text] of pairs) store.set(name, text);
    },
    get: async (names) => names.map((name) => store.get(name) ?? null),
  };
  const replica = (run: <T>(work: () => Promise<T>) => Promise<T> = (work) => work()): DistributedItems =>
    new DistributedItems({ local: memory().items, texts, guard: { run }, seal });
  const lost = async (): Promise<never> => Promise.reject(new Error("lost"));

  test("are found by another one, with the same key", async () => {
    const [first, second] = [replica(), replica()];
    await first.keep("k", [item("a"), item("b")], hour);
    expect([...(await second.find("k", ["a", "b", "c"], hour)).keys()]).toEqual(["a", "b"]);
    expect((await second.find("other", ["a"], hour)).size).toBe(0);
  });

  test("are not taken from whoever put them there under another name", async () => {
    const second = replica();
    await replica().keep("k", [item("a")], hour);
    store.set("item:{other}:a", store.get("item:{k}:a")!);
    expect((await second.find("other", ["a"], hour)).size).toBe(0);
  });

  test("are still known to the one that made them where the shared store is lost", async () => {
    const first = replica(lost);
    await first.keep("k", [item("z")], hour);
    expect([...(await first.find("k", ["z", "a"], hour)).keys()]).toEqual(["z"]);
    expect((await replica(lost).find("k", ["z"], hour)).size).toBe(0);
  });
});
