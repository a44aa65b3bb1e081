import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { BoundedMap } from "../../../src/gateway/upstream-state/bounded-map.ts";

describe("a table with a bound", () => {
  test("never holds more, has what was set last, and changes an entry in its place", () => {
    const steps = fc.array(fc.tuple(fc.constantFrom("set", "delete"), fc.nat({ max: 30 })), { maxLength: 300 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 10 }), (all, bound) => {
        const table = new BoundedMap<number, number>(bound);
        for (const [at, [what, key]] of all.entries()) {
          const had = table.has(key);
          const { size } = table;
          if (what === "delete") table.delete(key);
          else {
            table.set(key, at);
            expect(table.get(key)).toBe(at);
            expect(table.size).toBe(had ? size : Math.min(bound, size + 1));
          }
        }
      }),
    );
  });

  test("lets go of what was added first", () => {
    const table = new BoundedMap<number, string>(3);
    for (const key of [1, 2, 3]) table.set(key, "x");
    table.set(1, "y").set(4, "x").set(5, "x");
    expect([...table.keys()]).toEqual([3, 4, 5]);
  });

  test("passes over what is to be kept, and has no more of the others than its bound", () => {
    const table = new BoundedMap<number, number>(100, undefined, (key) => key < 1_000);
    for (let key = 0; key < 100_000; key += 1) table.set(key, key);
    expect([...table.keys()].filter((key) => key < 1_000).length).toBe(1_000);
    expect(table.size).toBeLessThanOrEqual(1_100);
    const gone: number[] = [];
    const map = new BoundedMap<string, number>(
      2,
      (key) => void gone.push(Number(key)),
      (key) => key === "1",
    );
    for (let key = 1; key <= 5; key += 1) map.set(String(key), key);
    expect([[...map.keys()], gone]).toEqual([
      ["1", "5"],
      [2, 3, 4],
    ]);
  });

  test("lets go of nothing for what is to be kept, and does not look for it", () => {
    let asked = 0;
    const table = new BoundedMap<number, number>(10, undefined, (key) => {
      asked += 1;
      return key >= 100;
    });
    for (let key = 0; key < 10; key += 1) table.set(key, key);
    for (let key = 100; key < 1_100; key += 1) table.set(key, key);
    expect(asked).toBe(1_000);
    expect(table.size).toBe(1_010);
    table.set(10, 10);
    expect([table.has(0), table.has(10)]).toEqual([false, true]);
  });

  test("costs a newcomer as much when it is large as when it is small", () => {
    const table = new BoundedMap<number, number>(50_000);
    for (let key = 0; key < 1_000_000; key += 1) table.set(key, key);
    expect(table.size).toBe(50_000);
  });
});
