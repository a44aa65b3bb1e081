import { fieldsOf, listOf, textOf } from "./chaos/ask.ts";
import { openRequest, type RawCall, type RawOptions } from "./raw-request.ts";
import type { RawResponse } from "./raw-response.ts";
import { sseEvents } from "./sse-events.ts";

/** One chat completion through a gateway, or straight from an upstream. */
export async function chat(server: Server, body: Record<string, unknown> | string, options: ChatOptions = {}): Promise<ChatReply> {
  const call = await openChat(server, body, options);
  return call.reply;
}

/** The same, returning while the answer is still on its way. */
export async function openChat(
  server: Server,
  body: Record<string, unknown> | string,
  { key, stream, ...raw }: ChatOptions = {},
): Promise<ChatCall> {
  const call = typeof body === "string" ? null : `call-${(calls += 1)}`;
  const complete = { ...defaults, ...(stream === undefined ? {} : { stream }), x_call: call };
  const request = await openRequest(chatUrl(server), {
    ...raw,
    headers: {
      "Content-Type": "application/json",
      ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
      ...raw.headers,
    },
    body: typeof body === "string" ? body : JSON.stringify({ ...complete, ...body }),
  });
  const askedAs = raw.headers?.["x-request-id"] ?? null;
  return { ...request, call, reply: request.ended.then((response) => readChat(response, call, askedAs)) };
}

/** Reads what a client would make of an answer, however it ended. */
export function readChat(response: RawResponse, call: string | null, askedAs: string | null = null): ChatReply {
  const streamed = /event-stream/.test(response.header("content-type") ?? "");
  const events = streamed ? sseEvents(response.body).data : [];
  const values = streamed ? events.map(parsed) : [answerIn(response.body)];
  const choices = values.flatMap((value) => listOf(fieldsOf(value)["choices"])).map(fieldsOf);
  const contents: string[] = [];
  for (const choice of choices) {
    const index = Number(choice["index"] ?? 0);
    const spoken = fieldsOf(choice["delta"] ?? choice["message"]);
    contents[index] = (contents[index] ?? "") + (textOf(spoken["content"]) ?? "");
  }
  const last = (name: string) => values.map((value) => fieldsOf(value)[name]).findLast((value) => value != null) ?? null;
  const error = last("error");
  return {
    call,
    response,
    status: response.status,
    events,
    contents,
    content: contents[0] ?? "",
    finishReason: textOf(choices.findLast((choice) => choice["finish_reason"])?.["finish_reason"]),
    usage: last("usage"),
    error: error === null ? null : (error as ChatError),
    done: events.at(-1) === "[DONE]",
    requestId: response.header("x-request-id"),
    askedAs,
    channel: response.header("x-sluice-channel"),
  };
}

export interface ChatOptions extends Omit<RawOptions, "body" | "bytes" | "path" | "headers"> {
  /** The client's key. */
  readonly key?: string;
  readonly stream?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ChatCall extends RawCall {
  /** The body's `x_call`, by which the upstream's ledger knows the attempts of this call; null for a body given as text. */
  readonly call: string | null;
  readonly reply: Promise<ChatReply>;
}

export interface ChatReply {
  readonly call: string | null;
  readonly response: RawResponse;
  readonly status: number;
  /** The payloads of a streamed answer. */
  readonly events: readonly string[];
  /** The text of each choice. */
  readonly contents: readonly string[];
  readonly content: string;
  readonly finishReason: string | null;
  readonly usage: unknown;
  /** From an error envelope or an error event. */
  readonly error: ChatError | null;
  /** The stream ended with `[DONE]`. */
  readonly done: boolean;
  readonly requestId: string | null;
  /** The id that the client gave its request itself: its receipt is known by it even if no answer ever came. */
  readonly askedAs: string | null;
  readonly channel: string | null;
}

export interface ChatError {
  readonly message: string;
  readonly type: string;
  readonly code: string | null;
  readonly param: string | null;
}

/** Anything that has an address, with or without `/v1` at its end. */
export interface Server {
  readonly url: string;
}

let calls = 0;

const defaults = { model: "chaos", messages: [{ role: "user", content: "Say something." }] };

function chatUrl({ url }: Server): string {
  return `${url.replace(/\/(v1\/?)?$/, "")}/v1/chat/completions`;
}

/** Null for audio, of which there are megabytes: to make a text of it only to find that it is no JSON takes longer than the call. */
function answerIn(body: Uint8Array): unknown {
  const first = body.find((byte) => !/\s/.test(String.fromCharCode(byte)));
  return first === undefined || !jsonBegins.includes(first) ? null : parsed(new TextDecoder().decode(body));
}

/** An object, an array, or the mark of the byte order before them. */
const jsonBegins = [0x7b, 0x5b, 0xef];

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
