import type { Upload } from "./upload.ts";

/** What a request asks for, and the `x_…` fields by which a test tunes a healthy answer. */
export interface Ask {
  readonly model: string | null;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly choices: number;
  /** The most output tokens asked for, under either name. */
  readonly maxTokens: number | null;
  readonly promptWords: number;
  /** The text of a last message that is the assistant's own. */
  readonly prefix: string | null;
  /** The text of the assistant's message before a last one of the user's. */
  readonly cutOff: string | null;
  /** The tools to be called in the answer; none for an answer in text. */
  readonly toolCalls: readonly Tool[];
  /** The schema the content must fulfil. */
  readonly schema: unknown;
  readonly call: string | null;
  readonly tokens: number | null;
  readonly paceMs: number | null;
  readonly firstMs: number | null;
  readonly reply: string | null;
  readonly raw: string | null;
  readonly fields: Record<string, unknown>;
}

export interface Tool {
  readonly name: string;
  readonly parameters: unknown;
}

/** Reads a request body; one that is not a JSON object asks for nothing in particular. */
export function askOf(body: Uint8Array): Ask {
  return askFrom(fieldsOf(parsed(body)));
}

/** The same from a form, whose values are all text. */
export function askOfUpload({ fields }: Upload): Ask {
  const read = (value: string): unknown => (value === "true" ? true : /^\d+$/.test(value) ? Number(value) : value);
  return askFrom(Object.fromEntries(fields.map(([name, value]) => [name, read(value)])));
}

function askFrom(fields: Record<string, unknown>): Ask {
  const messages = listOf(fields["messages"]).map(fieldsOf);
  const last = messages.at(-1);
  const format = fieldsOf(fields["response_format"]);
  return {
    model: textOf(fields["model"]),
    stream: fields["stream"] === true,
    includeUsage: fieldsOf(fields["stream_options"])["include_usage"] === true,
    choices: numberOf(fields["n"]) ?? 1,
    maxTokens: numberOf(fields["max_completion_tokens"]) ?? numberOf(fields["max_tokens"]),
    promptWords: messages.map(wordsIn).reduce((sum, words) => sum + words, 0),
    prefix: last?.["role"] === "assistant" ? textOf(last["content"]) : null,
    cutOff: last?.["role"] === "user" && messages.at(-2)?.["role"] === "assistant" ? textOf(messages.at(-2)!["content"]) : null,
    toolCalls: toolCallsOf(fields),
    schema: format["type"] === "json_schema" ? fieldsOf(format["json_schema"])["schema"] : undefined,
    call: textOf(fields["x_call"]),
    tokens: numberOf(fields["x_tokens"]),
    paceMs: numberOf(fields["x_pace_ms"]),
    firstMs: numberOf(fields["x_first_ms"]),
    reply: textOf(fields["x_reply"]),
    raw: textOf(fields["x_raw"]),
    fields,
  };
}

function toolCallsOf(fields: Record<string, unknown>): readonly Tool[] {
  const tools = listOf(fields["tools"]).map((tool) => {
    const definition = fieldsOf(fieldsOf(tool)["function"]);
    return { name: textOf(definition["name"]) ?? "tool", parameters: definition["parameters"] };
  });
  const wanted = fields["x_tool"];
  if (typeof wanted === "number") return tools.slice(0, wanted);
  if (wanted === "first") return isAnswered(fields) ? [] : tools.slice(0, 1);
  const choice = fields["tool_choice"];
  const named = textOf(fieldsOf(fieldsOf(choice)["function"])["name"]);
  if (named !== null) return tools.filter((tool) => tool.name === named);
  return wanted === true || choice === "required" ? tools.slice(0, 1) : [];
}

/** The client has run the tools and now wants to hear about it. */
function isAnswered(fields: Record<string, unknown>): boolean {
  return fieldsOf(listOf(fields["messages"]).at(-1))["role"] === "tool";
}

function wordsIn(message: Record<string, unknown>): number {
  return textOf(message["content"])?.split(/\s+/).filter(Boolean).length ?? 1;
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body)) as unknown;
  } catch {
    return null;
  }
}

export function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
