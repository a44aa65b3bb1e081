import { describe, expect, test } from "bun:test";
import { followLive, type LiveSource } from "../../../src/console/pages/live/live-source.ts";

const connecting = 0;
const closed = 2;

/** A page that watches, with sources whose events the test makes. */
function watched() {
  const sources: { readyState: number; isClosed: boolean; readonly fire: (type: string, data?: string) => void }[] = [];
  const timers = new Set<() => void>();
  const told: string[] = [];
  const stop = followLive({
    open: (): LiveSource => {
      const listeners = new Map<string, (event: { readonly data: string }) => void>();
      const source = {
        readyState: connecting,
        isClosed: false,
        fire: (type: string, data = "") => listeners.get(type)?.({ data }),
        addEventListener: (type: string, listener: (event: { readonly data: string }) => void) => void listeners.set(type, listener),
        close: () => void (source.isClosed = true),
      };
      sources.push(source);
      return source;
    },
    checkSession: () => void told.push("checks the session"),
    after: (_, then) => {
      timers.add(then);
      return () => timers.delete(then);
    },
    onConnection: (connection) => void told.push(connection),
    onData: (data) => void told.push(data),
  });
  const pass = (): void => {
    const due = [...timers];
    timers.clear();
    for (const then of due) then();
  };
  return { sources, timers, told, stop, pass };
}

describe("the page of live calls", () => {
  test("leaves it to the browser to connect again where the connection broke", () => {
    const { sources, timers, told } = watched();
    sources[0]!.fire("open");
    sources[0]!.fire("error");
    sources[0]!.fire("open");
    sources[0]!.fire("message", "a frame");
    expect([told, timers.size, sources.length]).toEqual([["open", "lost", "open", "a frame"], 0, 1]);
  });

  test("connects again after a refusal, and finds out whether the session has ended", () => {
    const { sources, told, pass } = watched();
    for (const at of [0, 1]) {
      sources[at]!.readyState = closed;
      sources[at]!.fire("error");
      pass();
    }
    sources[2]!.fire("open");
    sources[2]!.fire("message", "a frame");
    expect(told).toEqual(["lost", "checks the session", "lost", "checks the session", "open", "a frame"]);
    expect(sources).toHaveLength(3);
  });

  test("leaves nothing behind when it is left", () => {
    const { sources, timers, stop, pass } = watched();
    sources[0]!.readyState = closed;
    sources[0]!.fire("error");
    stop();
    pass();
    expect([timers.size, sources.length, sources[0]!.isClosed]).toEqual([0, 1, true]);
  });
});
