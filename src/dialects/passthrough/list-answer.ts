import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { type JsonMember, lastMember, scanJson } from "../../operations/json.ts";
import { skimObject } from "../../operations/json-skim.ts";
import { present } from "../../operations/mistakes.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted } from "../untrusted.ts";

/**
 * Reads an answer with status 200 that has a list. Truncated JSON, an error or an answer without the list is a failure of the channel,
 * which can be retried elsewhere. A valid answer keeps its bytes, and is never parsed as a whole: a batch of embeddings has millions of
 * numbers.
 */
export function readList(
  body: Uint8Array,
  list: string,
  usageOf: (reported: unknown, list: JsonMember) => MeteredUsage,
): WholeAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  const members = body.length > scannedBytesMax ? skimObject(body) : scannedObject(body);
  if (members === null) return failure("bad_response", "the answer is not a complete JSON object");
  const error = present(lastMember(members, "error"));
  if (error !== undefined) return explainInBand(valueIn(body, error));
  const results = present(lastMember(members, list));
  if (results?.kind !== "array") return failure("bad_response", `the answer has no ${list}`);
  if (results.empty) return failure("bad_response", `the answer's ${list} are empty`);
  const reported = present(lastMember(members, "usage"));
  const usage = usageOf(reported === undefined ? null : valueIn(body, reported), results);
  return { kind: "whole", body, type: "application/json", usage, finish: null };
}

/** A longer answer is only skimmed, so that it does not hold up other calls. */
const scannedBytesMax = 256 * 1024;

function scannedObject(body: Uint8Array): readonly JsonMember[] | null {
  const document = scanJson(body);
  return document.ok && document.kind === "object" ? document.members : null;
}

function valueIn(body: Uint8Array, { start, end }: JsonMember): unknown {
  return parseUntrusted(decoder.decode(body.subarray(start, end)), body, start, end) ?? null;
}

const decoder = new TextDecoder();
