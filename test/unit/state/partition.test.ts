import { expect, test } from "bun:test";
import { Partition } from "../../../src/state/partition.ts";

/** One of two processes, with a clock that is moved by hand and a database in which the other may say that it lost the counts. */
function world() {
  const known = {
    nowMs: 1_000_000,
    lostSinceMs: null as number | null,
    absent: [] as string[],
    processes: 2,
    rounds: [] as (() => void)[],
  };
  const partition = new Partition({
    absences: {
      note: async (name) => void (known.absent.includes(name) || known.absent.push(name)),
      end: async (name) => void (known.absent = known.absent.filter((id) => id !== name)),
      read: () => Promise.resolve(known.absent),
    },
    counts: { leave: async () => void (known.processes -= 1) },
    guard: {
      run: (work) => work(),
      get lostSinceMs() {
        return known.lostSinceMs;
      },
    },
    process: "a",
    processes: () => known.processes,
    recount: () => Promise.resolve(),
    nowMs: () => known.nowMs,
    after: (_, then) => {
      known.rounds.push(then);
      return () => {};
    },
  });
  /** A second passes, and one round at its end. */
  const round = async (): Promise<void> => {
    known.nowMs += 1_000;
    known.rounds.shift()?.();
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  };
  const rounds = async (count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1) await round();
  };
  const loses = (): void => void (known.lostSinceMs = known.nowMs);
  return { known, partition, rounds, loses };
}

const atFirst = 0.2;

test("a process uses its whole part once it has read twice that the other lost the counts with it", async () => {
  const { known, partition, rounds, loses } = world();
  loses();
  expect(partition.unreportedShare()).toBe(atFirst);
  known.absent.push("b");
  await rounds(1);
  expect(partition.unreportedShare()).toBe(atFirst);
  await rounds(1);
  expect(partition.unreportedShare()).toBe(Infinity);
});

test("a process does not use its whole part because the other lost the counts for a moment", async () => {
  const { known, partition, rounds, loses } = world();
  loses();
  await rounds(1);
  for (let blip = 0; blip < 3; blip += 1) {
    known.absent.push("b");
    await rounds(1);
    expect(partition.unreportedShare()).toBe(atFirst);
    known.absent = known.absent.filter((id) => id !== "b");
    await rounds(1);
    expect(partition.unreportedShare()).toBe(atFirst);
  }
});

test("a process keeps to its small share if the other loses the counts later, until the other's use before that has left the window", async () => {
  const { known, partition, rounds, loses } = world();
  loses();
  await rounds(10);
  known.absent.push("b");
  await rounds(50);
  expect(partition.unreportedShare()).toBe(atFirst);
  await rounds(10);
  expect(partition.unreportedShare()).toBe(Infinity);
});

test("a process that loses the counts after the other uses its whole part, because the other used a small share only", async () => {
  const { known, partition, rounds, loses } = world();
  known.absent.push("b");
  await rounds(10);
  expect(partition.share()).toBeLessThan(1);
  loses();
  await rounds(1);
  expect(partition.unreportedShare()).toBe(Infinity);
});
