import { describe, expect, test } from "bun:test";
import { defaultErrors } from "../../../src/surfaces/index.ts";
import type { StreamReader } from "../../../src/dialects/dialect.ts";
import { LiveStream } from "../../../src/gateway/attempt/live-stream.ts";
import type { Reply } from "../../../src/gateway/ports.ts";
import { Relay, type StreamTotals } from "../../../src/gateway/attempt/relay.ts";
import { AttemptTimeouts } from "../../../src/gateway/attempt/attempt-timeouts.ts";
import { ResponseStream } from "../../../src/http/response-stream.ts";
import type { ResponseWriter } from "../../../src/net/server/http-response.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { failure, isFailure, type Failure } from "../../../src/operations/failure.ts";

const far = { connectMs: 1e9, firstByteMs: 1e9, firstContentMs: 1e9, idleMs: 1e9, progressMs: 1e9, totalMs: 1e9 };
const broke = failure("disconnected", "the connection broke");

/** Every byte is audio, and the end of the body is its end. */
class Bytes implements StreamReader {
  readonly type = "audio/mpeg";
  readonly finished = false;
  readonly pending = null;

  constructor(
    readonly shape: StreamReader["shape"],
    readonly declaredBytes: number | null,
  ) {}

  push(chunk: Uint8Array): readonly Emission[] {
    return [{ kind: "delta", frame: chunk, output: "audio", text: "", finishes: false }];
  }

  close(): readonly Emission[] {
    return [{ kind: "end", frame: new Uint8Array(0), finish: "stop" }];
  }

  destroy(): void {}
}

/** An upstream that says what the test says, when it says it, and a clock that moves when it is told to. */
class World {
  readonly stream: LiveStream;
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly ring: () => void }[] = [];
  readonly #said: (Uint8Array | Failure | null)[] = [];
  #wake: (() => void) | null = null;

  constructor(declaredBytes: number | null, shape: StreamReader["shape"] = "bytes") {
    const reply: Reply = {
      kind: "reply",
      status: 200,
      header: () => null,
      bytes: () => broke,
      next: async () => {
        while (this.#said.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
        return this.#said.shift()!;
      },
      cancel: () => {},
    };
    const ports = {
      nowMs: () => this.#nowMs,
      after: (ms: number, ring: () => void) => {
        const timer = { atMs: this.#nowMs + ms, ring };
        this.#timers.push(timer);
        return () => void (this.#timers = this.#timers.filter((each) => each !== timer));
      },
      timers: { set: () => {}, clear: () => {} },
    };
    const limits = { startedMs: 0, timeouts: far, stream: true, patienceMs: 1e9, deadlineMs: 1e9, slowMs: 1e9 };
    const timeouts = new AttemptTimeouts(ports, limits, { abandon: () => {} }, () => 1e9);
    const owner = { ports, timeouts, reason: null, release: () => {}, abandon: () => {}, named: same, sanitized: same };
    this.stream = new LiveStream(reply, new Bytes(shape, declaredBytes), owner);
  }

  say(...parts: (Uint8Array | Failure | null)[]): void {
    this.#said.push(...parts);
    this.#wake?.();
  }

  async pass(ms: number): Promise<void> {
    // What was said before is read first.
    await turn();
    this.#nowMs += ms;
    for (const timer of this.#timers.filter(({ atMs }) => atMs <= this.#nowMs)) {
      this.#timers = this.#timers.filter((each) => each !== timer);
      timer.ring();
    }
    await turn();
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function same(cause: Failure): Failure {
  return cause;
}

const part = new Uint8Array(1_000).fill(7);

describe("speech whose length was declared", () => {
  test("is not begun before all of it is here: what breaks off until then is a failure that another channel can make good", async () => {
    const world = new World(5_000);
    const opening = world.stream.open();
    world.say(part, part);
    await world.pass(900);
    world.say(broke);
    expect(await opening).toEqual(broke);
  });

  test("is begun when all of it is here", async () => {
    const world = new World(2_000);
    const opening = world.stream.open();
    world.say(part, part, null);
    expect(await opening).toBeNull();
    expect(world.stream.first.map(({ kind }) => kind)).toEqual(["delta", "delta", "end"]);
    expect(await world.stream.next()).toBeNull();
  });

  test("keeps a client waiting for two seconds at most, and then no byte is lost or doubled", async () => {
    const world = new World(5_000);
    const opening = world.stream.open();
    world.say(part);
    await world.pass(1_999);
    expect(world.stream.first.length).toBe(1);
    await world.pass(1);
    expect(await opening).toBeNull();
    world.say(part, null);
    expect(await world.stream.next()).toMatchObject([{ kind: "delta" }]);
    expect(await world.stream.next()).toMatchObject([{ kind: "end" }]);
    expect(await world.stream.next()).toBeNull();
  });

  test("is interrupted by what breaks after that", async () => {
    const world = new World(5_000);
    const opening = world.stream.open();
    world.say(part);
    await world.pass(2_000);
    expect(await opening).toBeNull();
    world.say(broke);
    expect(await world.stream.next()).toMatchObject({ kind: "interrupted" });
  });

  test.each([
    ["as it says", 3 * 1024 * 1024],
    ["though it says otherwise", 1_000],
  ])("is not held where it is large, %s", async (_, declaredBytes) => {
    const world = new World(declaredBytes);
    const opening = world.stream.open();
    world.say(...Array.from({ length: 10 }, () => new Uint8Array(512 * 1024)));
    await world.pass(0);
    expect(await opening).toBeNull();
  });

  test("is held for a client of events too", async () => {
    const world = new World(5_000, "events");
    const opening = world.stream.open();
    world.say(part, broke);
    expect(await opening).toEqual(broke);
  });
});

describe("speech that streams", () => {
  test("is begun with its first audio, unless it is known in that moment that it broke", async () => {
    const world = new World(null);
    const opening = world.stream.open();
    world.say(part);
    await world.pass(0);
    expect(await opening).toBeNull();

    const broken = new World(null);
    const failing = broken.stream.open();
    broken.say(part, broke);
    expect(await failing).toEqual(broke);
  });

  test("in events is begun with its first audio", async () => {
    const world = new World(null, "events");
    const opening = world.stream.open();
    world.say(part, broke);
    expect(await opening).toBeNull();
    expect(await world.stream.next()).toMatchObject({ kind: "interrupted" });
  });
});

describe("the bytes of an answer that are counted", () => {
  /** A client that takes so many bytes of all that is written, and what is then recorded. */
  function sendingTo(takes: number, shape: "events" | "bytes" = "bytes") {
    const upstream: ((emissions: readonly Emission[] | Failure | null) => void)[] = [];
    const settled: { cause: Failure | null; totals: StreamTotals }[] = [];
    const source = {
      first: [] as Emission[],
      translated: false,
      next: () => new Promise<readonly Emission[] | Failure | null>((resolve) => void upstream.push(resolve)),
      abandon: () => {},
    };
    const relay = new Relay(
      source,
      (cause, totals) => {
        settled.push({ cause, totals: { ...totals } });
        return null;
      },
      shape === "events",
    );
    let written = 0;
    const out: ResponseWriter = {
      write: (bytes) => {
        written += bytes.length;
        return written <= takes;
      },
      get unsentBytes() {
        return Math.max(0, written - takes);
      },
      flush: () => 0,
      end: () => {},
      abort: () => {},
    };
    const ports = { nowMs: () => 0, timers: { set: () => {}, clear: () => {} } };
    const options = { requestId: "r", errors: defaultErrors, shape, keepAliveMs: 0, writeStallMs: 1e9, early: false, ports };
    const outgoing = new ResponseStream(relay, { cancelled: () => {}, ended: () => {} }, options);
    outgoing.begin(out);
    const say = async (said: Uint8Array | Failure | null): Promise<void> => {
      const isBytes = said !== null && !isFailure(said);
      upstream.shift()!(isBytes ? [{ kind: "delta", frame: said, output: "audio", text: "", finishes: false }] : said);
      for (let microtasks = 0; microtasks < 10; microtasks++) await Promise.resolve();
    };
    return { say, outgoing, settled, written: () => written };
  }

  test("are none where the connection is cut before any has left", async () => {
    const { say, settled, written } = sendingTo(Infinity);
    await say(part);
    await say(broke);
    expect([settled[0]?.totals.bytesOut, written()]).toEqual([0, 0]);
  });

  test("are those that left where it is cut later, without the last ones, which may be what is wrong", async () => {
    const { say, settled, written } = sendingTo(Infinity);
    await say(part);
    await turn();
    await say(part);
    await say(broke);
    expect([settled[0]?.totals.bytesOut, written()]).toEqual([1_000, 1_000]);
  });

  test("are those that the client took where it does not read and then leaves", async () => {
    const { say, outgoing, settled } = sendingTo(400);
    await say(part);
    await turn();
    outgoing.onClose();
    expect(settled[0]).toMatchObject({ cause: { kind: "client_gone" }, totals: { bytesOut: 400 } });
  });

  test("are all of them where the break is told in words, behind what came before", async () => {
    const { say, settled } = sendingTo(2_000, "events");
    await say(part);
    await say(part);
    await say(broke);
    expect(settled[0]?.totals.bytesOut).toBe(2_000);
  });

  test("are all of them where the answer is complete", async () => {
    const { say, settled } = sendingTo(2_000);
    await say(part);
    await say(null);
    expect(settled[0]).toMatchObject({ cause: null, totals: { bytesOut: 1_000 } });
  });
});
