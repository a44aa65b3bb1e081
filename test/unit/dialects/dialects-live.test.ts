import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Codec } from "../../../src/dialects/dialect.ts";
import { dialects } from "../../../src/dialects/index.ts";
import { LiveStream } from "../../../src/gateway/attempt/live-stream.ts";
import type { Reply } from "../../../src/gateway/ports.ts";
import { Relay } from "../../../src/gateway/attempt/relay.ts";
import { AttemptTimeouts } from "../../../src/gateway/attempt/attempt-timeouts.ts";
import type { ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { failure, isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readerOf } from "../../support/chat-answers.ts";
import { bytewise } from "../../support/cuts.ts";
import { numRuns } from "../../support/properties.ts";
import { recordedDialects, recordingsOf, type Recording } from "../../support/recordings.ts";

// Sweeps over every byte; the clock stands still.
setDefaultTimeout(120_000);

/** How the transport ends behind the last chunk. */
type Ending = "clean" | "broken";

/** What a client gets of a stream that arrives in these chunks: the frames, and the failure that ended them. */
async function relayed(
  codec: Codec<ChatRequest>,
  recording: Recording,
  chunks: readonly Uint8Array[],
  ending: Ending,
): Promise<{ sent: string; failure: Failure | null }> {
  const reads = chunks.filter(({ length }) => length > 0);
  // Every other part is there when it is asked for, and the others are waited for.
  let isAtHand = reads.length % 2 === 0;
  const reply: Reply = {
    kind: "reply",
    status: 200,
    header: () => null,
    ready: () => {
      isAtHand = !isAtHand;
      return isAtHand ? (reads.shift() ?? null) : null;
    },
    next: async () => reads.shift() ?? (ending === "clean" ? null : failure("disconnected", "the connection broke")),
    bytes: async () => failure("bad_response", "a stream is not read as a whole"),
    cancel: () => {},
  };
  const clock = { nowMs: () => 0, after: () => () => {}, timers: { set: () => {}, clear: () => {} } };
  const stream = new LiveStream(reply, readerOf(codec, recording.facts.choices, false), {
    ports: clock,
    timeouts: new AttemptTimeouts(
      clock,
      { startedMs: clock.nowMs(), timeouts, stream: true, patienceMs: Infinity, deadlineMs: Infinity, slowMs: Infinity },
      { abandon: () => {} },
    ),
    reason: null,
    release: () => {},
    abandon: () => {},
    named: (cause: Failure) => cause,
    sanitized: (cause) => cause,
  });
  const unopened = await stream.open();
  if (unopened !== null) return { sent: "", failure: unopened };
  const settled: (Failure | null)[] = [];
  const relay = new Relay(stream, (cause) => {
    settled.push(cause);
    return null;
  });
  let sent = "";
  for (;;) {
    const part = await relay.next();
    if (part === null || isFailure(part)) {
      if (settled.length !== 1 || settled[0] !== part) expect(settled).toEqual([part]);
      return { sent, failure: part };
    }
    sent += Buffer.from(part).toString("latin1");
  }
}

const timeouts = {
  connectMs: Infinity,
  firstByteMs: Infinity,
  firstContentMs: Infinity,
  idleMs: Infinity,
  progressMs: Infinity,
  totalMs: Infinity,
};
const done = "data: [DONE]\n\n";
/** dialects.test.ts cuts every recording at every byte; here, where a relay is in between, that is left to CI. */
const step = numRuns(1) > 1 ? 1 : 3;

/** From this length on, the end mark has been read as an event, so that nothing that follows matters. */
function endRead({ bytes, facts }: Recording): number {
  const end = facts.fails === undefined ? /data: ?\[DONE\](\n\n|\r\n\r|\r\r)/.exec(Buffer.from(bytes).toString("latin1")) : null;
  return end === null ? Infinity : end.index + end[0].length;
}

const recorded = recordedDialects();
const speaking = [...dialects.values()].flatMap(({ name, chat }) =>
  chat === undefined || !recorded.includes(name) ? [] : [[name, chat] as const],
);

describe.each(speaking)("a client of an upstream that speaks %s", (dialect, codec) => {
  describe.each(recordingsOf(dialect).map((recording) => [recording.name, recording] as const))("and sends %s", (_, recording) => {
    const { bytes, facts, wholeFrom } = recording;

    test("gets the same however the network cuts it", async () => {
      const whole = await relayed(codec, recording, [bytes], "clean");
      expect(whole.failure?.kind ?? null).toBe(facts.fails ?? null);
      for (let at = 1; at < bytes.length; at += step) {
        const cut = await relayed(codec, recording, [bytes.subarray(0, at), bytes.subarray(at)], "clean");
        if (cut.sent !== whole.sent || cut.failure?.kind !== whole.failure?.kind)
          throw new Error(`cut at byte ${at} it becomes ${JSON.stringify(cut)}`);
      }
      expect(await relayed(codec, recording, bytewise(bytes), "clean")).toEqual(whole);
    });

    test.each(["clean", "broken"] as const)(
      "is never told that an incomplete stream is complete (the connection's own end is %s)",
      async (ending) => {
        const { sent } = await relayed(codec, recording, [bytes], "clean");
        const wholeAt = ending === "clean" ? wholeFrom : endRead(recording);
        for (let length = 0; length <= bytes.length; length += step) {
          const cut = await relayed(codec, recording, [bytes.subarray(0, length)], ending);
          const whole = length >= wholeAt;
          if ((cut.failure === null) !== whole || cut.sent.endsWith(done) !== whole)
            throw new Error(`ended at byte ${length} it becomes ${JSON.stringify(cut)}`);
          const beginning = whole ? cut.sent.slice(0, -done.length) : cut.sent;
          if (!sent.startsWith(beginning)) throw new Error(`ended at byte ${length}, what was sent is no beginning: ${beginning}`);
          if (cut.sent !== "" && cut.failure !== null && cut.failure.kind !== "interrupted")
            throw new Error(`ended at byte ${length}, after output, it is called ${cut.failure.kind}`);
        }
      },
    );
  });
});
