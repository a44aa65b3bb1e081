import type { ChatAnswer, StreamPart } from "./conversation/answer-parts.ts";
import type { StreamPlace } from "./conversation/surface.ts";
import type { MeteredUsage } from "./usage.ts";

/**
 * The parts of a stream, for all operations. `frame` is sent to the client, unchanged if the upstream speaks the OpenAI API. A stream
 * that stops without `end` is incomplete.
 */
export type Emission =
  | {
      readonly kind: "delta";
      readonly frame: Uint8Array;
      readonly output: Output | null;
      readonly text: string;
      /** Output besides the content: reasoning, a refusal, the arguments of a tool call. */
      readonly unsaid?: string;
      readonly finishes: boolean;
      /**
       * What it says. Where the client speaks another API than the upstream, the frame is not sent, but written anew from these. Where it
       * speaks the same one, the surface follows them, if it has to know what was sent before another channel goes on.
       */
      readonly parts?: readonly StreamPart[];
      /** Where in the stream the frame is, if its events are numbered: an error that follows has the next number. */
      readonly place?: StreamPlace;
    }
  | { readonly kind: "usage"; readonly frame: Uint8Array | null; readonly usage: MeteredUsage }
  | { readonly kind: "skipped"; readonly detail: string }
  | { readonly kind: "end"; readonly frame: Uint8Array; readonly finish: string | null };

/** The kind of output in a frame. The first output is the commit point. */
export type Output = "text" | "reasoning" | "tool_call" | "refusal" | "audio" | "image" | "finish";

/** A complete answer that is not streamed: the bytes for the client, and what the gateway needs of them. */
export interface WholeAnswer {
  readonly kind: "whole";
  readonly body: Uint8Array;
  /** The media type for the client. */
  readonly type: string;
  readonly usage: MeteredUsage | null;
  readonly finish: string | null;
  /** The model says in it that it refuses. */
  readonly refused?: true;
  /** All of its output as one text, where the upstream did not report how much that was and the body is no chat completion. */
  readonly said?: string;
  /** What it says, where the client speaks another API than the upstream: the body is then written anew from this. */
  readonly answer?: ChatAnswer;
}
