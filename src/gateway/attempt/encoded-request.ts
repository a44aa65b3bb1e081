import type { Candidate } from "../../channels/channel.ts";
import { encode, type EncodedRequest } from "../../dialects/dialect.ts";
import type { CallRequest } from "../../operations/call-request.ts";
import type { Failure } from "../../operations/failure.ts";
import type { Gateway } from "../gateway.ts";
import { lower, type Lesson } from "../upstream-state/lessons.ts";

/** The request of a client as it is sent to a candidate, in the dialect of its channel. A dry run shows the same. */
export function encodedFor(
  gateway: Pick<Gateway, "dialects" | "ports">,
  ask: CallRequest,
  { deployment: { channel, model } }: Candidate,
  { lesson, forwarded, keyId }: EncodingFacts,
): EncodedRequest | Failure {
  return encode(gateway.dialects.get(channel.dialect), ask, {
    channel,
    model,
    ceiling: lower(channel.maxTokensCeiling, lesson.ceiling),
    meterStream: channel.quirks.streamOptions && lesson.streamOptions,
    subtitles: lesson.subtitles,
    withoutReasoning: lesson.withoutReasoning === true,
    refusedFields: lesson.refusedFields ?? null,
    betas: lesson.betas ?? null,
    forwarded,
    seal: gateway.ports.seal ?? null,
    keyId,
  });
}

export interface EncodingFacts {
  /** What was learned about the deployment. */
  readonly lesson: Lesson;
  /** The headers of the client that the channel gets. */
  readonly forwarded: Readonly<Record<string, string>>;
  readonly keyId: string;
}
