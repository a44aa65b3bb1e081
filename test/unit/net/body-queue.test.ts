import { describe, expect, test } from "bun:test";
import { BodyQueue } from "../../../src/net/message/body-queue.ts";

function makeQueue(partBytesMax = 10, queuedBytesMax = 20) {
  const calls: string[] = [];
  const flow = { pause: () => void calls.push("pause"), resume: () => void calls.push("resume") };
  return { queue: new BodyQueue<"broken">(flow, { partBytesMax, queuedBytesMax }), calls };
}

function bytes(length: number, value = 1): Uint8Array {
  return new Uint8Array(length).fill(value);
}

describe("a body queue", () => {
  test("gives a body that arrived in one part whole, and an empty one as well", () => {
    const { queue } = makeQueue();
    queue.push(bytes(5));
    expect(queue.whole()).toBeNull();
    queue.end();
    expect(queue.whole()).toEqual(bytes(5));
    const { queue: empty } = makeQueue();
    empty.end();
    expect(empty.whole()).toEqual(bytes(0));
  });

  test("hands a part to a waiting reader without queueing it", async () => {
    const { queue, calls } = makeQueue();
    const next = queue.next();
    const part = bytes(10);
    queue.push(part);
    expect(await next).toBe(part);
    expect(calls).toEqual([]);
  });

  test("hands out no part that is longer than its limit", async () => {
    const { queue } = makeQueue(10, 100);
    const next = queue.next();
    queue.push(bytes(25));
    queue.end();
    expect(await next).toHaveLength(10);
    expect([await queue.next(), await queue.next(), await queue.next()]).toEqual([bytes(10), bytes(5), null]);
  });

  test("pauses the connection once while too much is queued, and resumes it at half of that", () => {
    const { queue, calls } = makeQueue(2_000, 4_000);
    for (let count = 0; count < 4; count++) queue.push(bytes(1_500));
    expect(calls).toEqual(["pause"]);
    queue.ready();
    queue.ready();
    expect(calls).toEqual(["pause"]);
    queue.ready();
    expect(calls).toEqual(["pause", "resume"]);
    queue.resume();
    expect(calls).toEqual(["pause", "resume"]);
  });

  test("gives what arrived before a failure, and then the failure", async () => {
    const { queue } = makeQueue();
    queue.push(bytes(3));
    queue.fail("broken");
    expect([await queue.next(), await queue.next()]).toEqual([bytes(3), "broken"]);
  });

  test("tells a waiting reader of the end and of a failure", async () => {
    const { queue } = makeQueue();
    const end = queue.next();
    queue.end();
    expect(await end).toBeNull();
    const { queue: other } = makeQueue();
    const failed = other.next();
    other.fail("broken");
    expect(await failed).toBe("broken");
  });

  test("joins small parts, which would take a hundred times their size otherwise", () => {
    const { queue } = makeQueue(Infinity, 1_000_000);
    for (let count = 0; count < 5_000; count++) queue.push(bytes(1, count % 256));
    let parts = 0;
    let length = 0;
    for (let part = queue.ready(); part !== null; part = queue.ready()) {
      for (const [at, byte] of part.entries()) if (byte !== (length + at) % 256) throw new Error("out of order");
      length += part.length;
      parts++;
    }
    expect(length).toBe(5_000);
    expect(parts).toBeLessThan(5);
  });
});
