import { ConverseStream } from "../../src/dialects/bedrock/converse-stream.ts";
import { EventStreamReader } from "../../src/dialects/bedrock/event-stream-reader.ts";
import { CohereStream } from "../../src/dialects/cohere/cohere-answer.ts";
import type { StreamReader } from "../../src/dialects/dialect.ts";
import { EventReader } from "../../src/dialects/readers/event-reader.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { eventStreamMessage } from "../support/event-stream.ts";
import { cutAtRandom, type Dice, type FuzzTarget } from "./target.ts";

const eventTypes = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "other"];

/**
 * Whatever an upstream streams is read to an end or a failure, and nothing is thrown. Each line of the input is the payload of one
 * event, because a mutation of the framing itself would seldom get past its checksums; now and then the bytes are sent as they are.
 */
export const upstreamStreamsTarget: FuzzTarget = {
  name: "upstream-streams",
  seeds: [
    [
      '{"role":"assistant"}',
      '{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}',
      '{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}',
      '{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"h","signature":"s","redactedContent":"AA=="}}}',
      '{"contentBlockIndex":0}',
      '{"stopReason":"tool_use"}',
      '{"usage":{"inputTokens":1,"outputTokens":2,"cacheDetails":[{"ttl":"1h","inputTokens":1}]}}',
    ].join("\n"),
    [
      '{"type":"message-start","id":"c"}',
      '{"type":"content-delta","delta":{"message":{"content":{"text":"a","thinking":"b"}}}}',
      '{"type":"tool-call-start","delta":{"message":{"tool_calls":{"id":"t","function":{"name":"f","arguments":"null"}}}}}',
      '{"type":"tool-call-end"}',
      '{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":1}}}}',
    ].join("\n"),
  ],
  words: [
    '"delta":',
    '"message":',
    '"content":',
    '"start":',
    '"toolUse":',
    '"type":',
    "null",
    "[]",
    "{}",
    "-1",
    "1e999",
    '""',
    "\n",
    "[[[[",
  ],
  check: (input, dice) => {
    const lines = new TextDecoder().decode(input).split("\n");
    const framed = Buffer.concat(
      lines.map((line, at) => {
        const type = eventTypes[dice(8) === 0 ? dice(eventTypes.length) : Math.min(at, eventTypes.length - 1)] ?? "";
        return eventStreamMessage({ ":message-type": dice(20) === 0 ? "exception" : "event", ":event-type": type }, line);
      }),
    );
    const events = new TextEncoder().encode(lines.map((line) => `data: ${line}\n\n`).join(""));
    return [
      played(new EventStreamReader(new ConverseStream([])), dice(10) === 0 ? input : framed, dice),
      played(new EventReader(new CohereStream([])), events, dice),
    ].join(" ");
  },
};

/** What came of a stream. It has one end at most, and nothing after it. */
function played(reader: StreamReader, bytes: Uint8Array, dice: Dice): string {
  const kinds: string[] = [];
  const steps = [...cutAtRandom(bytes, dice).map((piece) => () => reader.push(piece)), () => reader.close()];
  for (const step of steps) {
    const emissions = step();
    if (emissions instanceof Promise) throw new Error("a reader of events does no I/O");
    if (isFailure(emissions)) return `${kinds.join()} ${emissions.kind}`;
    for (const { kind } of emissions) if (kinds.at(-1) !== kind) kinds.push(kind);
    if (reader.pending !== null) return `${kinds.join()} ${reader.pending.kind}`;
  }
  if (kinds.filter((kind) => kind === "end").length !== 1 || kinds.at(-1) !== "end") throw new Error(`a stream of ${kinds.join()}`);
  return kinds.join();
}
