import { expect, test } from "bun:test";
import fc from "fast-check";
import { detached, PartQueue } from "../../../src/net/message/part-queue.ts";

test("whatever is pushed and taken, it comes out once, in order and in parts that are not too large", () => {
  const step = fc.oneof(fc.integer({ min: 1, max: 9000 }), fc.constant("take" as const), fc.constant("detach" as const));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 6000 }), (steps, bytesMax) => {
      const queue = new PartQueue();
      let pushed = 0;
      let taken = 0;
      const take = (): boolean => {
        const part = queue.shift(bytesMax);
        if (part === null) return false;
        expect(part.length).toBeWithin(1, bytesMax + 1);
        for (const byte of part) if (byte !== taken++ % 251) throw new Error(`byte ${taken - 1} is not in its place`);
        return true;
      };
      for (const what of steps) {
        if (what === "take") take();
        else if (what === "detach") queue.detach();
        else {
          const begins = pushed;
          queue.push(Uint8Array.from({ length: what }, (_, at) => (begins + at) % 251));
          pushed += what;
        }
        expect(queue.bytes).toBe(pushed - taken);
      }
      while (take());
      expect(taken).toBe(pushed);
    }),
  );
});

test("ten thousand parts of a byte become few", () => {
  const queue = new PartQueue();
  for (let at = 0; at < 10_000; at++) queue.push(new Uint8Array(1));
  let parts = 0;
  while (queue.shift(Infinity) !== null) parts++;
  expect(parts).toBeLessThan(6);
});

test("what waits is given whole where it is one part, and only then", () => {
  const queue = new PartQueue();
  expect(queue.sole()).toBeNull();
  const part = new Uint8Array(50_000);
  queue.push(part);
  expect(queue.sole()).toBe(part);
  expect(queue.bytes).toBe(0);
  queue.push(part);
  queue.push(new Uint8Array(1));
  expect(queue.sole()).toBeNull();
  expect(queue.bytes).toBe(50_001);
});

test("a large part that waits for long lets go of the memory it came in", () => {
  const came = new Uint8Array(500_000);
  const part = came.subarray(0, 2000);
  const queue = new PartQueue();
  queue.push(part);
  queue.detach();
  expect(queue.sole()!.buffer.byteLength).toBe(2000);
  expect(detached(part).buffer.byteLength).toBe(2000);
});
