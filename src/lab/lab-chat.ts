import type { LabReply } from "./lab-faults.ts";

/** What the lab's channels say, as the chat completions API has it. Every answer is the same text, so that a client can check it. */
export const labModel = "lab";
export const labTokens = 60;
export const labText: string = words(0).join("");

/** A request, as far as the lab looks at it. */
export interface LabChatRequest {
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** The number of the first token: where a text that broke off is continued, a few words before its end. */
  readonly from: number;
}

export function readLabRequest(body: string): LabChatRequest | null {
  const document = record(parsed(body));
  if (document === null) return null;
  const includeUsage = record(document["stream_options"])?.["include_usage"] === true;
  return { stream: document["stream"] === true, includeUsage, from: firstToken(document["messages"]) };
}

/** A gateway that continues a text sends what there is of it, and wants its end repeated. */
function firstToken(messages: unknown): number {
  if (!Array.isArray(messages)) return 0;
  for (const message of messages.toReversed()) {
    const { role, content } = record(message) ?? {};
    if (role !== "assistant" || typeof content !== "string" || !labText.startsWith(content)) continue;
    return Math.max(0, content.trim().split(" ").length - repeatedTokens);
  }
  return 0;
}

/** More than the forty characters that the gateway wants repeated. */
const repeatedTokens = 8;

export function wholeAnswer({ from }: LabChatRequest): string {
  const message = { role: "assistant", content: words(from).join("").trimStart() };
  return JSON.stringify({ ...envelope("chat.completion"), choices: [{ index: 0, message, finish_reason: "stop" }], usage: usage(from) });
}

/** The event of the role, one for each token, and the end. */
export function eventsOf(request: LabChatRequest): { readonly role: string; readonly tokens: readonly string[]; readonly end: string } {
  const { from, includeUsage } = request;
  const delta = (value: object, finish: string | null = null): string =>
    eventText({ ...envelope("chat.completion.chunk"), choices: [{ index: 0, delta: value, finish_reason: finish }] });
  const reported = includeUsage ? eventText({ ...envelope("chat.completion.chunk"), choices: [], usage: usage(from) }) : "";
  return {
    role: delta({ role: "assistant", content: "" }),
    tokens: words(from).map((content) => delta({ content })),
    end: `${delta({}, "stop")}${reported}data: [DONE]\n\n`,
  };
}

export function chatReply(request: LabChatRequest): LabReply {
  const { role, tokens, end } = eventsOf(request);
  return {
    isStreamed: request.stream,
    contentType: "text/event-stream",
    opening: role,
    pieces: tokens,
    closing: end,
    whole: wholeAnswer(request),
  };
}

function words(from: number): readonly string[] {
  return Array.from({ length: labTokens - from }, (_, at) => `${at === 0 && from === 0 ? "" : " "}word${from + at + 1}`);
}

function envelope(object: string): Readonly<Record<string, unknown>> {
  return { id: "chatcmpl-lab", object, created: 0, model: labModel };
}

function usage(from: number): Readonly<Record<string, number>> {
  const spoken = labTokens - from;
  return { prompt_tokens: 8, completion_tokens: spoken, total_tokens: 8 + spoken };
}

function eventText(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : null;
}
