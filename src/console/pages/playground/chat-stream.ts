/** What came of a chat so far. */
export interface PlayedAnswer {
  readonly text: string;
  readonly reasoning: string;
  /** What the model wants to call, by its place in the answer. */
  readonly tools: readonly PlayedTool[];
  readonly finish: string | null;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** What the gateway or the upstream said was wrong; null if nothing. */
  readonly error: string | null;
}

export interface PlayedTool {
  readonly name: string;
  readonly input: string;
}

export const emptyAnswer: PlayedAnswer = {
  text: "",
  reasoning: "",
  tools: [],
  finish: null,
  promptTokens: null,
  completionTokens: null,
  error: null,
};

/** Splits a stream of bytes into the data of its events, wherever the network cut it. */
export class EventSplitter {
  private rest = "";
  private readonly decoder = new TextDecoder();

  push(bytes: Uint8Array): readonly string[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const events = this.rest.split(/\r?\n\r?\n/);
    this.rest = events.pop() ?? "";
    return events.flatMap((event) => {
      const data = event
        .split(/\r?\n/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).replace(/^ /, ""));
      return data.length === 0 ? [] : [data.join("\n")];
    });
  }
}

/** The answer after one more event of a chat completion. */
export function withEvent(answer: PlayedAnswer, data: string): PlayedAnswer {
  if (data === "[DONE]") return answer;
  const event = parsed(data);
  if (event === null) return answer;
  const error = record(event["error"]);
  if (error !== null) return { ...answer, error: text(error["message"]) ?? "The stream ended with an error." };
  const choice = record((event["choices"] as readonly unknown[] | undefined)?.[0]);
  const delta = record(choice?.["delta"]) ?? record(choice?.["message"]);
  const usage = record(event["usage"]);
  return {
    ...answer,
    text: answer.text + (text(delta?.["content"]) ?? ""),
    reasoning: answer.reasoning + (text(delta?.["reasoning_content"]) ?? text(delta?.["reasoning"]) ?? ""),
    tools: withCalls(answer.tools, delta?.["tool_calls"]),
    finish: text(choice?.["finish_reason"]) ?? answer.finish,
    promptTokens: number(usage?.["prompt_tokens"]) ?? answer.promptTokens,
    completionTokens: number(usage?.["completion_tokens"]) ?? answer.completionTokens,
  };
}

/** A call comes in pieces, each with the place of the call that it belongs to. */
function withCalls(tools: readonly PlayedTool[], pieces: unknown): readonly PlayedTool[] {
  if (!Array.isArray(pieces)) return tools;
  const after = [...tools];
  for (const piece of pieces.slice(0, toolsMax)) {
    const call = record(piece);
    const made = record(call?.["function"]);
    const at = Math.min(number(call?.["index"]) ?? after.length, toolsMax);
    const before = after[at] ?? { name: "", input: "" };
    after[at] = { name: before.name + (text(made?.["name"]) ?? ""), input: before.input + (text(made?.["arguments"]) ?? "") };
  }
  return after.filter((tool) => tool !== undefined);
}

const toolsMax = 64;

function parsed(data: string): Readonly<Record<string, unknown>> | null {
  try {
    return record(JSON.parse(data));
  } catch {
    return null;
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : null;
}

function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
