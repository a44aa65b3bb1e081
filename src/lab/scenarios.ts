import type { Timeouts } from "../channels/channel.ts";
import type { FailureKind } from "../operations/failure.ts";
import type { RoutingPolicy } from "../routing/plan.ts";
import type { LabBehaviour } from "./lab-faults.ts";

/** A fault, the channels that meet it, and what the gateway promises then. Tests run every one of them. */
export interface LabScenario {
  readonly name: string;
  readonly title: string;
  /** What the first channel does. */
  readonly fault: string;
  /** What should happen. */
  readonly expected: string;
  readonly operation: LabOperation;
  /** Whether its calls may be streamed, the usual way first. */
  readonly modes: readonly LabMode[];
  /** In the order in which they are asked. */
  readonly channels: readonly LabChannel[];
  /** Settings in place of those in force, so that a run takes seconds. */
  readonly routing: Partial<RoutingPolicy>;
  readonly promise: LabPromise;
}

export type LabOperation = "chat" | "speech" | "transcription";
export type LabMode = "streamed" | "whole";

export interface LabChannel {
  readonly name: LabChannelName;
  readonly behaviour: LabBehaviour;
  readonly timeouts?: Partial<Timeouts>;
}

export type LabChannelName = "lab-a" | "lab-b";

/** What must be true after a run. */
export interface LabPromise {
  /** What the client of the first call gets; later ones get that or one of the others, because the channel may cool down by then. */
  readonly client: readonly [PromisedView, ...PromisedView[]];
  /** How the first attempt of the first call fails; empty if it does not. */
  readonly firstFailure: readonly FailureKind[];
  /** Who gives the answer of the first call, or its rest. */
  readonly answeredBy: LabChannelName | null;
  /** A channel that is not asked for a while, after so many calls. */
  readonly coolsDown: { readonly channel: LabChannelName; readonly afterCalls: number } | null;
}

/** All of the text or the sound, once; an error with this status and code; or a part of it and this error. */
export type PromisedView =
  | { readonly sees: "answer" }
  | { readonly sees: "error"; readonly status: number; readonly code: string }
  | { readonly sees: "interruption"; readonly code: string };

const answer = { sees: "answer" } as const;
const noChannel = { sees: "error", status: 503, code: "no_channel_available" } as const;
const both: readonly LabMode[] = ["streamed", "whole"];
const streamed: readonly LabMode[] = ["streamed"];
const whole: readonly LabMode[] = ["whole"];
const healthy: LabChannel = { name: "lab-b", behaviour: "ok" };
/** In place of a minute and more. */
const impatient = { firstByteMs: 2_000, firstContentMs: 2_000 };

/** The client notices nothing: `lab-b` answers. */
function failsOver(behaviour: LabBehaviour, firstFailure: readonly FailureKind[], coolsDown: LabPromise["coolsDown"] = null) {
  return {
    channels: [{ name: "lab-a", behaviour }, healthy],
    routing: {},
    promise: { client: [answer], firstFailure, answeredBy: "lab-b", coolsDown },
  } as const;
}

const chatScenarios: readonly Omit<LabScenario, "operation">[] = [
  {
    name: "cut-stream",
    title: "Cut at token 40",
    fault: "lab-a closes the connection after 40 of 60 tokens.",
    expected: "The stream is rescued: lab-b goes on with the text, and the client gets each word once.",
    modes: streamed,
    ...failsOver("fault:fin-chunked-after@40", ["interrupted", "disconnected"]),
  },
  {
    name: "cut-stream-alone",
    title: "Cut at token 40, with no other channel",
    fault: "lab-a closes the connection after 40 of 60 tokens, and it is the only channel of the model.",
    expected: "The client gets the 40 tokens and then an error event, without an end mark: it can tell that the answer is not complete.",
    modes: streamed,
    channels: [{ name: "lab-a", behaviour: "fault:fin-chunked-after@40" }],
    routing: { rescue: "error" },
    promise: {
      client: [{ sees: "interruption", code: "upstream_stream_interrupted" }, noChannel],
      firstFailure: ["interrupted", "disconnected"],
      answeredBy: null,
      coolsDown: null,
    },
  },
  {
    name: "stalled-stream",
    title: "A stream that stands still",
    fault: "lab-a sends 10 tokens and then nothing more. It has `timeouts.idle: 2s`, in place of two minutes.",
    expected: "After two seconds without a byte the attempt is given up, and lab-b goes on with the text.",
    modes: streamed,
    ...failsOver("fault:hang-after@10", ["interrupted", "timed_out"]),
    channels: [{ name: "lab-a", behaviour: "fault:hang-after@10", timeouts: { idleMs: 2_000 } }, healthy],
  },
  {
    name: "slow-first-token",
    title: "First token after 15 s",
    fault: "lab-a says nothing for 15 seconds.",
    expected: "After a second (`routing.hedge_after: 1s`) lab-b is asked as well, and the quicker one answers.",
    modes: streamed,
    channels: [{ name: "lab-a", behaviour: "fault:delay@15000" }, healthy],
    routing: { hedgeAfterMs: 1_000 },
    promise: { client: [answer], firstFailure: [], answeredBy: "lab-b", coolsDown: null },
  },
  {
    name: "rate-limit",
    title: "429 with Retry-After 20",
    fault: "lab-a refuses with status 429 and asks for a wait of 20 seconds.",
    expected: "lab-b answers. lab-a is not asked again before the 20 seconds are over: later calls go to lab-b at once.",
    modes: both,
    ...failsOver("fault:rate-limit@retry-after=20", ["rate_limited"], { channel: "lab-a", afterCalls: 1 }),
  },
  {
    name: "rate-limit-alone",
    title: "429 with Retry-After 20, with no other channel",
    fault: "lab-a refuses with status 429 and asks for a wait of 20 seconds, and it is the only channel of the model.",
    expected: "The client gets 429 with a Retry-After of its own, and lab-a is left alone until then.",
    modes: both,
    channels: [{ name: "lab-a", behaviour: "fault:rate-limit@retry-after=20" }],
    routing: { waitMs: 0 },
    promise: {
      client: [{ sees: "error", status: 429, code: "rate_limit_exceeded" }],
      firstFailure: ["rate_limited"],
      answeredBy: null,
      coolsDown: { channel: "lab-a", afterCalls: 1 },
    },
  },
  {
    name: "server-error",
    title: "HTTP 500",
    fault: "lab-a answers every request with status 500.",
    expected:
      "lab-a is asked once more, and then lab-b answers. After five failures the breaker of lab-a opens, and calls go to lab-b at once.",
    modes: both,
    ...failsOver("fault:status@500", ["overloaded"], { channel: "lab-a", afterCalls: 5 }),
  },
  {
    name: "outage",
    title: "HTTP 503 everywhere",
    fault: "Both channels answer every request with status 503.",
    expected: "After its attempts the client gets 503: the call was not answered, and that is what it is told.",
    modes: both,
    channels: [
      { name: "lab-a", behaviour: "fault:status@503" },
      { name: "lab-b", behaviour: "fault:status@503" },
    ],
    routing: { waitMs: 0 },
    promise: {
      client: [{ sees: "error", status: 503, code: "upstream_unavailable" }, noChannel],
      firstFailure: ["overloaded"],
      answeredBy: null,
      coolsDown: null,
    },
  },
  {
    name: "reset",
    title: "Connection reset before the answer",
    fault: "lab-a takes the request and resets the connection.",
    expected: "lab-b answers.",
    modes: both,
    ...failsOver("fault:rst-before-headers", ["disconnected"]),
  },
  {
    name: "truncated-json",
    title: "Truncated JSON",
    fault: "lab-a answers with status 200 and half of a JSON document, of the length that it declares.",
    expected: "An answer that cannot be read is a failure, not an answer: lab-b answers.",
    modes: whole,
    ...failsOver("fault:invalid-json", ["bad_response"]),
  },
  {
    name: "error-in-200",
    title: "An error with status 200",
    fault: "lab-a answers with status 200, and its body is an error.",
    expected: "The error is noticed in spite of the status, and lab-b answers.",
    modes: whole,
    ...failsOver("fault:error-in-200@502", ["overloaded", "bad_response"]),
  },
  {
    name: "malformed-event",
    title: "Malformed server-sent event",
    fault: "lab-a sends one event of broken JSON among the sound ones.",
    expected: "The broken event is left out, and the client gets the whole text from lab-a.",
    modes: streamed,
    channels: [{ name: "lab-a", behaviour: "fault:malformed-event@5" }, healthy],
    routing: {},
    promise: { client: [answer], firstFailure: [], answeredBy: "lab-a", coolsDown: null },
  },
  {
    name: "endless-line",
    title: "A line without end",
    fault: "lab-a sends a line of a stream that never ends.",
    expected: "At 8 MiB the gateway stops reading, so that the line does not fill its memory, and lab-b answers.",
    modes: streamed,
    ...failsOver("fault:endless-line", ["bad_response"]),
  },
];

const speechScenarios: readonly Omit<LabScenario, "operation">[] = [
  {
    name: "speech-cut",
    title: "Speech that is cut off",
    fault: "lab-a closes the connection after half of the sound.",
    expected: "Other sound cannot be joined to what the client has, so its connection is reset: nobody takes the half for a short file.",
    modes: whole,
    channels: [{ name: "lab-a", behaviour: "fault:fin-chunked-after@30" }, healthy],
    routing: {},
    promise: {
      client: [{ sees: "interruption", code: "connection_lost" }, answer],
      firstFailure: ["interrupted", "disconnected"],
      answeredBy: null,
      coolsDown: null,
    },
  },
  {
    name: "speech-rate-limit",
    title: "Speech: 429 with Retry-After 20",
    fault: "lab-a refuses to speak with status 429 and asks for a wait of 20 seconds.",
    expected: "lab-b speaks, and lab-a is left alone for 20 seconds.",
    modes: whole,
    ...failsOver("fault:rate-limit@retry-after=20", ["rate_limited"], { channel: "lab-a", afterCalls: 1 }),
  },
  {
    name: "speech-slow",
    title: "First sound after 15 s",
    fault: "lab-a says nothing for 15 seconds. It has `timeouts.first_byte: 2s` and `timeouts.first_content: 2s`.",
    expected: "After two seconds the attempt is given up, and lab-b speaks.",
    modes: whole,
    ...failsOver("fault:delay@15000", ["timed_out"]),
    channels: [{ name: "lab-a", behaviour: "fault:delay@15000", timeouts: impatient }, healthy],
  },
];

const transcriptionScenarios: readonly Omit<LabScenario, "operation">[] = [
  {
    name: "transcription-cut",
    title: "Half a transcript",
    fault: "lab-a answers a recording with status 200 and half of a JSON document.",
    expected: "A transcript that cannot be read is a failure: the recording is sent to lab-b, which answers.",
    modes: whole,
    ...failsOver("fault:invalid-json", ["bad_response"]),
  },
  {
    name: "transcription-rate-limit",
    title: "Transcription: 429 with Retry-After 20",
    fault: "lab-a refuses a recording with status 429 and asks for a wait of 20 seconds.",
    expected: "The recording is sent to lab-b, which answers, and lab-a is left alone for 20 seconds.",
    modes: whole,
    ...failsOver("fault:rate-limit@retry-after=20", ["rate_limited"], { channel: "lab-a", afterCalls: 1 }),
  },
  {
    name: "transcription-slow",
    title: "A transcript after 15 s",
    fault: "lab-a says nothing for 15 seconds. It has `timeouts.first_byte: 2s`, in place of several minutes.",
    expected: "After two seconds the attempt is given up, and the recording is sent to lab-b, which answers.",
    modes: whole,
    ...failsOver("fault:delay@15000", ["timed_out"]),
    channels: [{ name: "lab-a", behaviour: "fault:delay@15000", timeouts: impatient }, healthy],
  },
];

export const labScenarios: readonly LabScenario[] = [
  ...chatScenarios.map((scenario) => ({ ...scenario, operation: "chat" as const })),
  ...speechScenarios.map((scenario) => ({ ...scenario, operation: "speech" as const })),
  ...transcriptionScenarios.map((scenario) => ({ ...scenario, operation: "transcription" as const })),
];

export function labScenario(name: string): LabScenario | null {
  return labScenarios.find((scenario) => scenario.name === name) ?? null;
}
