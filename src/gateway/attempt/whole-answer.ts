import type { Codec, ExpectedStream, ExpectedWhole, UpstreamHead } from "../../dialects/dialect.ts";
import { parseUntrusted } from "../../dialects/untrusted.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { estimateTokens } from "../../usage/token-estimate.ts";
import type { Reply } from "../ports.ts";

/** Reads an answer that is not streamed, and judges it: the dialect may find that it is an error in spite of its status. */
export function readWhole<T extends object = WholeAnswer>(
  reply: Reply,
  read: (body: Uint8Array, head: UpstreamHead) => T | Failure,
  bytesMax: number,
  progress: { bytesArrived(): void },
): T | Failure | Promise<T | Failure> {
  const body = reply.bytes(bytesMax, progress);
  return body instanceof Promise ? judgedLater(body, reply, read) : judged(body, reply, read);
}

async function judgedLater<T extends object>(
  body: Promise<Uint8Array | Failure>,
  reply: Reply,
  read: (body: Uint8Array, head: UpstreamHead) => T | Failure,
): Promise<T | Failure> {
  return judged(await body, reply, read);
}

function judged<T extends object>(
  body: Uint8Array | Failure,
  reply: Reply,
  read: (body: Uint8Array, head: UpstreamHead) => T | Failure,
): T | Failure {
  return isFailure(body) ? afterHead(body) : read(body, reply);
}

export function isSuccess({ status }: Reply): boolean {
  return status >= 200 && status <= 299;
}

/** How JSON is read that came instead of a stream. A function of its own, so that the closure is not allocated for every call. */
export function insteadOf(answer: ExpectedStream): ExpectedWhole["read"] {
  return (body, head) => answer.instead(body, head);
}

/** What the dialect makes of an answer with an error status. */
export async function explained(reply: Reply, explain: Codec<never>["explain"]): Promise<Failure> {
  const body = await reply.bytes(errorBytesMax);
  const text = isFailure(body) ? "" : decoder.decode(body);
  return explain({ status: reply.status, header: (name) => reply.header(name), body: text });
}

/** A connection that breaks inside the body is the deployment's fault, unlike a refused connection. */
function afterHead(cause: Failure): Failure {
  return cause.kind === "bad_response" ? cause : failure("disconnected", `${cause.detail} inside the answer`);
}

const errorBytesMax = 64 * 1024;

/** Estimates the tokens of a whole answer whose upstream did not report them. Zero if it did, or if nothing can be estimated. */
export function outputEstimate({ body, type, usage, said }: WholeAnswer): number {
  if (usage?.completionTokens != null || !type.startsWith("application/json")) return 0;
  if (said !== undefined) return estimateTokens(said);
  const answer = parseUntrusted(decoder.decode(body), body);
  return textsIn((answer as { readonly choices?: unknown } | null | undefined)?.choices).reduce(
    (sum, text) => sum + estimateTokens(text),
    0,
  );
}

const decoder = new TextDecoder();

/** The texts of all choices: those of completions, or content, refusals, reasoning, and the names and arguments of tool calls. */
function textsIn(choices: unknown): readonly string[] {
  if (!Array.isArray(choices)) return [];
  return choices.flatMap((choice: { readonly text?: unknown; readonly message?: Readonly<Record<string, unknown>> | null } | null) => {
    if (typeof choice?.text === "string") return [choice.text];
    const message = choice?.message;
    if (typeof message !== "object" || message === null) return [];
    const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"] : [];
    const called = calls.map(
      (call: { readonly function?: unknown } | null) => call?.function as Readonly<Record<string, unknown>> | null | undefined,
    );
    const said = ["content", "refusal", "reasoning", "reasoning_content"].map((name) => message[name]);
    return [...said, ...called.flatMap((one) => [one?.["name"], one?.["arguments"]])].filter((text) => typeof text === "string");
  });
}
