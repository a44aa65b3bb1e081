import type { Address } from "../../channels/channel.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { type JsonMember, lastMember, scanJson } from "../../operations/json.ts";
import { countElements, skimObject } from "../../operations/json-skim.ts";
import { present } from "../../operations/mistakes.ts";
import type { PassthroughOperation } from "../../operations/operation.ts";
import type { PassthroughRequest } from "../../operations/passthrough/passthrough-request.ts";
import { imageUsage, inputUsage } from "../../operations/passthrough/passthrough-usage.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { Codec, EncodedRequest, EventDecoder, ExpectedAnswer, ExpectedWhole, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { parseUntrusted } from "../untrusted.ts";
import { EventReader } from "../readers/event-reader.ts";
import { readAnswer as readCompletion } from "./answer.ts";
import { ImageStream } from "./image-stream.ts";
import { clampTokens, meterStream, renameModel } from "./request-splices.ts";
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
  const { channel, model, forwarded } = target;
  const splices: Splice[] = [];
  renameModel(ask, model, splices);
  const isCompletion = ask.operation === "completion";
  const clampedTo = isCompletion ? clampTokens(ask, target.ceiling, splices) : null;
  const hidesUsage = isCompletion && target.meterStream && meterStream(ask, splices);
  const accept = ask.stream ? "text/event-stream" : "application/json";
  return {
    request: {
      method: "POST",
      url: urlOf(channel.address, ask.operation, model),
      headers: { "content-type": "application/json", accept, ...forwarded, ...channel.headers },
      body: splice(ask.body, splices),
    },
    answer: ask.stream ? streamed(ask, hidesUsage) : { kind: "whole", read: readers[ask.operation] },
    clampedTo,
    voice: null,
  };
}

function urlOf({ baseUrl, passthroughPaths, query }: Address, operation: PassthroughOperation, model: string): string {
  return baseUrl + passthroughPaths[operation].replace("{model}", encodeURIComponent(model)) + query;
}

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

/**
 * Reads an answer with status 200 that has a list. Truncated JSON, an error or an answer without the list is a failure of the channel,
 * which can be retried elsewhere. A valid answer keeps its bytes, and is never parsed as a whole: a batch of embeddings has millions of
 * numbers.
 */
function readList(body: Uint8Array, list: string, usageOf: (reported: unknown, list: JsonMember) => MeteredUsage): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  const members = body.length > scannedBytesMax ? skimObject(body) : scannedObject(body);
  if (members === null) return failure("bad_response", "the answer is not a complete JSON object");
  const field = (key: string): JsonMember | undefined => present(lastMember(members, key));
  const error = field("error");
  if (error !== undefined) return explainInBand(parseUntrusted(textOf(body, error), body, error.start, error.end));
  const results = field(list);
  if (results?.kind !== "array") return failure("bad_response", `the answer has no ${list}`);
  if (results.empty) return failure("bad_response", `the answer's ${list} are empty`);
  const reported = field("usage");
  const usage = usageOf(
    reported === undefined ? null : (parseUntrusted(textOf(body, reported), body, reported.start, reported.end) ?? null),
    results,
  );
  return { kind: "whole", body, type: "application/json", usage, finish: null };
}

function scannedObject(body: Uint8Array): readonly JsonMember[] | null {
  const document = scanJson(body);
  return document.ok && document.kind === "object" ? document.members : null;
}

function textOf(body: Uint8Array, { start, end }: JsonMember): string {
  return decoder.decode(body.subarray(start, end));
}

const decoder = new TextDecoder();
/** A longer answer is only skimmed, so that it does not hold up other calls. */
const scannedBytesMax = 256 * 1024;
