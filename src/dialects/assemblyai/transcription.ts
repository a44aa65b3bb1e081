import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Codec, EncodedRequest, ExpectedSteps, NextStep, Target, UpstreamRequest } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { fileBody, unknownType } from "../transcripts/file-body.ts";
import { droppedFrom, translationUnsupported } from "../transcripts/foreign-transcription.ts";
import { renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";
import { filledTextOf, objectOf, parseUntrusted } from "../untrusted.ts";
import { carriedFields, jobBody } from "./job-body.ts";
import { jobFailure, readTranscript } from "./transcript.ts";

/**
 * A transcription is three requests and more: the file is uploaded, a job is created for it, and the job is asked until it is done
 * (https://www.assemblyai.com/docs/api-reference/transcripts/submit). Nothing is deleted afterwards: the account decides how long
 * recordings and transcripts are kept.
 */
export const assemblyaiTranscription: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  if (ask.task === "translate") return translationUnsupported();
  const { baseUrl, query } = target.channel.address;
  return {
    request: {
      method: "POST",
      url: `${baseUrl}/upload${query}`,
      headers: transcriptionHeaders("application/json", unknownType, target),
      body: fileBody(ask.file.content),
    },
    answer: { kind: "steps", read: (body) => creation(body, ask, target) },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, carriedFields(target.model)),
  };
}

/** The file is there: the request for a job. */
function creation(body: Uint8Array, ask: TranscriptionRequest, target: Target): NextStep | Failure {
  const answer = answerIn(body);
  if (isFailure(answer)) return answer;
  const url = filledTextOf(answer["upload_url"]);
  if (url === null || url.length > urlLengthMax) return failure("bad_response", "the upload was answered without its address");
  const request: UpstreamRequest = {
    method: "POST",
    url: transcriptionUrl(ask.task, target),
    headers: transcriptionHeaders("application/json", "application/json", target),
    body: encoder.encode(JSON.stringify(jobBody(url, ask, target.model))),
  };
  return {
    kind: "next",
    request,
    afterMs: 0,
    answer: { kind: "steps", read: (created) => afterCreation(created, ask, target) },
  };
}

/** The job exists. A short recording may be done by now, but usually it is queued. */
function afterCreation(body: Uint8Array, ask: TranscriptionRequest, target: Target): WholeAnswer | NextStep | Failure {
  const job = answerIn(body);
  if (isFailure(job)) return job;
  const id = filledTextOf(job["id"]);
  // It becomes a part of an address.
  if (id === null || !/^[\w-]{1,128}$/.test(id)) return failure("bad_response", "the job has no usable id");
  return outcomeOf(job, { ask, target, id, polls: 0, troubles: 0 });
}

interface Poll {
  readonly ask: TranscriptionRequest;
  readonly target: Target;
  readonly id: string;
  /** How often the job was asked. */
  readonly polls: number;
  /** How many of the last requests failed in a row. */
  readonly troubles: number;
}

function outcomeOf(job: JsonObject, poll: Poll): WholeAnswer | NextStep | Failure {
  switch (job["status"]) {
    case "queued":
    case "processing":
      return nextPoll({ ...poll, troubles: 0 }, waitMs(poll.polls));
    case "completed":
    case "error": {
      const cause = jobFailure(job);
      if (cause !== null) return cause;
      const transcript = readTranscript(job, poll.ask.language);
      return isFailure(transcript) ? transcript : renderedTranscript(transcript, poll.ask);
    }
    default:
      return failure("bad_response", "the job has an unknown status");
  }
}

function nextPoll(poll: Poll, afterMs: number): NextStep | Failure {
  const { target, id, polls } = poll;
  if (polls >= pollsMax) return failure("timed_out", `not done after ${pollsMax} polls`);
  const { "content-type": _, ...headers } = transcriptionHeaders("application/json", "", target);
  const { baseUrl, transcriptionPath, query } = target.channel.address;
  const request: UpstreamRequest = { method: "GET", url: `${baseUrl}${transcriptionPath}/${id}${query}`, headers, body: null };
  const answer: ExpectedSteps = {
    kind: "steps",
    read: (body) => {
      const job = answerIn(body);
      return isFailure(job) ? job : outcomeOf(job, { ...poll, polls: polls + 1 });
    },
    // The job goes on meanwhile and will be billed, so the attempt does not end because it could not be asked once.
    retry: (cause) => {
      if (!passing.has(cause.kind) || poll.troubles >= troublesMax) return null;
      const after = Math.min(Math.max(cause.retryAfterMs ?? 0, waitMs(polls), troubleWaitMs * 2 ** poll.troubles), troubleWaitMaxMs);
      const next = nextPoll({ ...poll, polls: polls + 1, troubles: poll.troubles + 1 }, after);
      return isFailure(next) ? null : next;
    },
  };
  return { kind: "next", request, afterMs, answer };
}

/** Short recordings take two or three seconds, so the first waits are short; long ones are asked every five seconds. */
function waitMs(polls: number): number {
  return Math.min(firstWaitMs * 1.5 ** Math.min(polls, 32), waitMaxMs);
}

const firstWaitMs = 500;
const waitMaxMs = 5_000;
/** The timeouts of the channel end an attempt long before, unless they are unusual. */
const pollsMax = 2_000;
const troublesMax = 5;
const troubleWaitMs = 1_000;
const troubleWaitMaxMs = 30_000;
const passing: ReadonlySet<Failure["kind"]> = new Set([
  "unreachable",
  "connect_timeout",
  "stale_socket",
  "disconnected",
  "timed_out",
  "overloaded",
  "rate_limited",
]);
const urlLengthMax = 4096;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

function answerIn(body: Uint8Array): JsonObject | Failure {
  const answer = objectOf(parseUntrusted(decoder.decode(body), body));
  if (answer === null) return failure("bad_response", body.length === 0 ? "the answer is empty" : "the answer is not a JSON object");
  // A job has an error of its own, which is read with its status.
  return answer["error"] !== undefined && answer["status"] === undefined ? explainInBand(answer["error"]) : answer;
}
