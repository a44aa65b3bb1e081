import type { Address } from "../../channels/channel.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { type JsonLimits, type JsonMember, lastMember, scanJson, valueOf } from "../../operations/json.ts";
import { present } from "../../operations/mistakes.ts";
import type { PassthroughOperation } from "../../operations/operation.ts";
import type { PassthroughRequest } from "../../operations/passthrough/passthrough-request.ts";
import { inputUsage } from "../../operations/passthrough/passthrough-usage.ts";
import { setEvery, splice, type Splice } from "../../operations/splice.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";

/** The operations whose bytes are sent as they came, with the model renamed, and whose answers are only looked at. */
export const openaiPassthrough: { readonly [O in PassthroughOperation]: Codec<PassthroughRequest> } = {
  embedding: { encode, explain },
};

function encode(ask: PassthroughRequest, target: Target): EncodedRequest {
  const { channel, model, forwarded } = target;
  return {
    request: {
      method: "POST",
      url: urlOf(channel.address, ask.operation, model),
      headers: { "content-type": "application/json", accept: "application/json", ...forwarded, ...channel.headers },
      body: splice(ask.body, modelSplices(ask, model)),
    },
    answer: { kind: "whole", read: (body) => readAnswer(body, shapes[ask.operation]) },
    clampedTo: null,
    voice: null,
  };
}

function urlOf({ baseUrl, passthroughPaths, query }: Address, operation: PassthroughOperation, model: string): string {
  return baseUrl + passthroughPaths[operation].replace("{model}", encodeURIComponent(model)) + query;
}

/** Every duplicate is renamed: an upstream that reads the first one must not see a model that the key may not use. */
function modelSplices(ask: PassthroughRequest, model: string): readonly Splice[] {
  const count = ask.members.filter(({ key }) => key === "model").length;
  return model === ask.model && count === 1 ? [] : setEvery(ask, "model", model);
}

/** What a complete answer has, and how it reports its usage. */
interface AnswerShape {
  readonly list: string;
  readonly usage: (reported: unknown) => MeteredUsage;
}

const shapes: { readonly [O in PassthroughOperation]: AnswerShape } = {
  embedding: { list: "data", usage: inputUsage },
};

/**
 * Reads an answer with status 200. Truncated JSON, an error or an answer without results is a failure of the channel, which can be retried
 * elsewhere. A valid answer keeps its bytes, and is never parsed as a whole: a batch of embeddings has millions of numbers.
 */
function readAnswer(body: Uint8Array, { list, usage }: AnswerShape): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  const document = scanJson(body, depthOnly);
  if (!document.ok) return failure("bad_response", `the answer is not JSON: ${document.message}`);
  if (document.kind !== "object") return failure("bad_response", "the answer is JSON, but not an object");
  const field = (key: string): JsonMember | undefined => present(lastMember(document.members, key));
  const error = field("error");
  if (error !== undefined) return explainInBand(valueOf(body, error));
  const results = field(list);
  if (results?.kind !== "array") return failure("bad_response", `the answer has no ${list}`);
  if (results.empty) return failure("bad_response", `the answer's ${list} are empty`);
  const reported = field("usage");
  return {
    kind: "whole",
    body,
    type: "application/json",
    usage: usage(reported === undefined ? null : valueOf(body, reported)),
    finish: null,
  };
}

const depthOnly: JsonLimits = { depthMax: 64, membersMax: Infinity, tokensMax: Infinity };
