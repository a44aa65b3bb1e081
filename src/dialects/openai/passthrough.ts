import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { countElements } from "../../operations/json-skim.ts";
import type { PassthroughOperation } from "../../operations/operation.ts";
import type { PassthroughRequest } from "../../operations/passthrough/passthrough-request.ts";
import { imageUsage, inputUsage } from "../../operations/passthrough/passthrough-usage.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import type { Codec, EncodedRequest, ErrorResponse, EventDecoder, ExpectedAnswer, ExpectedWhole, Target } from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { readList } from "../passthrough/list-answer.ts";
import { passthroughHead } from "../passthrough/passthrough-request-head.ts";
import { clampTokens, meterStream, renameModel } from "../passthrough/request-splices.ts";
import { EventReader } from "../readers/event-reader.ts";
import { readAnswer as readCompletion } from "./answer.ts";
import { ImageStream } from "./image-stream.ts";
import { OpenAiStream } from "./stream.ts";

const codec: Codec<PassthroughRequest> = { encode, explain };

/** The operations whose bytes are sent as they came, with the model renamed, and whose answers are only looked at. */
export const openaiPassthrough: { readonly [O in PassthroughOperation]: Codec<PassthroughRequest> } = {
  embedding: codec,
  completion: codec,
  moderation: codec,
  image: codec,
  rerank: codec,
};

function encode(ask: PassthroughRequest, target: Target): EncodedRequest {
  if (ask.form !== undefined) return encodeForm(ask, ask.form.modelAt, target);
  const splices: Splice[] = [];
  renameModel(ask, target.model, splices);
  const isCompletion = ask.operation === "completion";
  const clampedTo = isCompletion ? clampTokens(ask, target.ceiling, splices) : null;
  const hidesUsage = isCompletion && target.meterStream && meterStream(ask, splices);
  return {
    request: { ...passthroughHead(ask, target), body: splice(ask.body, splices) },
    answer: ask.stream ? streamed(ask, hidesUsage) : { kind: "whole", read: readers[ask.operation] },
    clampedTo,
    voice: null,
  };
}

function encodeForm(ask: PassthroughRequest, modelAt: number, target: Target): EncodedRequest {
  return {
    request: { ...passthroughHead(ask, target), body: splice(ask.body, [{ start: modelAt, end: modelAt, text: target.model }]) },
    answer: ask.stream ? streamed(ask, false) : { kind: "whole", read: readers.image },
    clampedTo: null,
    voice: null,
    explain: explainForm,
  };
}

/** Many that make images do not change them. That they do not know the path is no fault of the channel, and another one may. */
function explainForm(response: ErrorResponse): Failure {
  const cause = explain(response);
  return unknownPath.has(response.status) ? failure("unsupported", cause.detail, { status: response.status, message: noForms }) : cause;
}

const unknownPath: ReadonlySet<number> = new Set([404, 405, 415, 501]);
const noForms = "This model does not change images.";

function streamed({ operation, choices }: PassthroughRequest, hidesUsage: boolean): ExpectedAnswer {
  const decoder = (): EventDecoder =>
    operation === "image" ? new ImageStream(choices) : new OpenAiStream({ hidesUsage, choices, texts: true });
  return {
    kind: "stream",
    reader: () => new EventReader(decoder()),
    instead: (body, head) => {
      const whole = readers[operation](body, head);
      return isFailure(whole)
        ? whole
        : failure("bad_response", "a whole answer came where a stream was asked for", { status: head.status });
    },
  };
}

/** How a complete answer of each operation is read. */
const readers: { readonly [O in PassthroughOperation]: ExpectedWhole["read"] } = {
  embedding: (body) => readList(body, "data", inputUsage),
  completion: (body) => readCompletion(body),
  moderation: (body) => readList(body, "results", inputUsage),
  image: (body) => readList(body, "data", (usage, images) => imageUsage(usage, countElements(body, images))),
  rerank: (body) => readList(body, "results", inputUsage),
};
