import { expect, test } from "bun:test";
import { Log, writtenTo, type LogLevel } from "../../../src/telemetry/log.ts";

/** A reader that takes so much at a time, and what it has by now. */
function reader() {
  const parts: Uint8Array[] = [];
  const taking = { bytesMax: 0 };
  const log = new Log((bytes) => {
    const taken = Math.min(bytes.length, taking.bytesMax);
    parts.push(bytes.slice(0, taken));
    return taken;
  });
  const lines = (): readonly Record<string, unknown>[] =>
    Buffer.concat(parts)
      .toString()
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { log, taking, lines };
}

/** A writer that takes as much of what it is given as `take` says, and what it has by now. */
function scripted(take: (length: number) => number | null) {
  const parts: Uint8Array[] = [];
  const log = new Log((bytes) => {
    const taken = take(bytes.length);
    // Copied: the log uses the memory again.
    if (taken !== null) parts.push(new Uint8Array(bytes.subarray(0, taken)));
    return taken;
  });
  const text = (): string => Buffer.concat(parts).toString();
  const lines = (of = text()): readonly Record<string, unknown>[] =>
    of
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { log, lines, text };
}

test("a line begins with when it was written, how grave it is and what happened", () => {
  const { log, taking, lines } = reader();
  taking.bytesMax = Infinity;
  log.warn("cooling", { scope: "é" });
  log.traffic({ time: log.time(), level: "info", event: "call" });
  log.flush();
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string;
  expect(lines()).toEqual([
    { time, level: "warn", event: "cooling", scope: "é" },
    { time, level: "info", event: "call" },
  ]);
});

test.each<[LogLevel, readonly string[]]>([
  ["debug", ["debug", "info", "call", "warn", "error"]],
  ["info", ["info", "call", "warn", "error"]],
  ["warn", ["warn", "error"]],
  ["error", ["error"]],
])("a log of the level %s has lines of that level and graver ones, and calls are of the level info", (level, events) => {
  const written: Uint8Array[] = [];
  const log = new Log((bytes) => {
    written.push(bytes.slice());
    return bytes.length;
  }, level);
  for (const one of ["debug", "info", "warn", "error"] as const) {
    if (one === "warn") log.traffic({ time: log.time(), level: "info", event: "call" });
    log[one](one);
  }
  log.flush();
  const lines = Buffer.concat(written).toString().trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { readonly event: string }).event)).toEqual([...events]);
});

test("a reader that takes little at a time gets every line whole and in order", () => {
  const { log, taking, lines } = reader();
  taking.bytesMax = 1_001;
  for (let at = 0; at < 1_000; at += 1) log.info("line", { at, text: "é".repeat(at % 70) });
  while (lines().length < 1_000) log.flush();
  expect(lines().map((line) => line["at"])).toEqual(Array.from({ length: 1_000 }, (_, at) => at));
});

test("a reader that takes nothing loses lines, is told how many, and costs no more memory than is meant for it", () => {
  const { log, taking, lines } = reader();
  const text = "x".repeat(1_000);
  for (let at = 0; at < 10_000; at += 1) log.info("line", { at, text });
  taking.bytesMax = Infinity;
  log.flush();
  log.info("last");
  log.flush();
  const kept = lines();
  expect(kept.slice(0, -1).map((line) => line["at"])).toEqual(Array.from({ length: kept.length - 1 }, (_, at) => at));
  expect(kept.at(-1)).toMatchObject({ event: "last", dropped_lines: 10_000 - (kept.length - 1) });
  expect(kept.length * text.length).toBeWithin(3 * 2 ** 20, 5 * 2 ** 20);
});

test("lines that the reader will never take are lost, counted and told with the next one that it takes", () => {
  let isGone = true;
  const written: Uint8Array[] = [];
  const log = new Log((bytes) => {
    if (isGone) return null;
    written.push(bytes.slice());
    return bytes.length;
  });
  log.info("one");
  log.info("two");
  log.flush();
  expect(log.droppedLines).toBe(2);
  isGone = false;
  log.info("three");
  log.flush();
  expect(log.droppedLines).toBe(2);
  expect(JSON.parse(Buffer.concat(written).toString())).toMatchObject({ event: "three", dropped_lines: 2 });
});

test("lines that are lost one after another are all told with the first one that is taken, and each once", () => {
  let isGone = true;
  const { log, lines } = scripted((length) => (isGone ? null : length));
  for (let at = 0; at < 3; at += 1) {
    log.info("one");
    log.info("two");
    log.flush();
  }
  isGone = false;
  log.info("three");
  log.info("four");
  log.flush();
  log.info("five");
  log.flush();
  expect(lines().map(({ event, dropped_lines: dropped }) => [event, dropped])).toEqual([
    ["three", 6],
    ["four", undefined],
    ["five", undefined],
  ]);
  expect(log.droppedLines).toBe(6);
});

test("lines that were told to be lost are not told again when others are, unless that line was cut", () => {
  const takes: (number | null)[] = [null];
  const { log, lines, text } = scripted((length) => (takes.length === 0 ? length : takes.shift()!));
  log.info("one");
  log.flush();
  log.info("two");
  const { length } = JSON.stringify({ time: log.time(), level: "info", event: "two", dropped_lines: 1 });
  log.info("three");
  // The reader takes the second line, and goes in the middle of the third.
  takes.push(length + 1 + 5, null);
  log.flush();
  log.flush();
  log.info("four");
  // It takes half of what tells of the third.
  takes.push(20, null);
  log.flush();
  log.flush();
  log.info("five");
  log.flush();
  const read = text();
  expect(lines(read.split("\n")[0])).toMatchObject([{ event: "two", dropped_lines: 1 }]);
  expect(lines(read.slice(read.lastIndexOf('{"time"')))).toMatchObject([{ event: "five", dropped_lines: 2 }]);
  expect(log.droppedLines).toBe(3);
});

test("a writer that takes nothing is left alone until the timer, and not tried with each line", () => {
  const writes: number[] = [];
  const taking = { bytesMax: 0 };
  const { log } = scripted((length) => {
    writes.push(length);
    return Math.min(length, taking.bytesMax);
  });
  const text = "x".repeat(1_000);
  for (let at = 0; at < 1_000; at += 1) log.info("line", { at, text });
  expect(writes).toHaveLength(1);
  // Once it takes something, lines are written as they come.
  taking.bytesMax = 1_000;
  log.flush();
  log.info("line", { text });
  expect(writes).toHaveLength(3);
});

test("a full disk is waited for, like a reader that does not keep up; another error loses what it is given", () => {
  const bytes = Buffer.from("a line\n");
  const failing = (code: string) => () => {
    throw Object.assign(new Error(code), { code });
  };
  for (const code of ["EAGAIN", "ENOSPC", "EDQUOT"]) expect([code, writtenTo(failing(code), bytes)]).toEqual([code, 0]);
  for (const code of ["EPIPE", "EIO"]) expect([code, writtenTo(failing(code), bytes)]).toEqual([code, null]);
  // What was taken before an error is not given again.
  const parts: number[] = [4];
  const partly = (_: Uint8Array, at: number): number => {
    const part = parts.shift();
    if (part === undefined) throw Object.assign(new Error("gone"), { code: at === 4 ? "EIO" : "EINVAL" });
    return part;
  };
  expect(writtenTo(partly, bytes)).toBe(4);
});
