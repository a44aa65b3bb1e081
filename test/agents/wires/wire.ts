import type { DeclaredTool, ToolCall } from "../scripted-model.ts";

/** What the model thinks before each call. */
export const thought = "I have a tool for this.";

/** Not a real one: whoever gets it back unchanged has returned what it was given. */
export const signature = "c2lnbmF0dXJlLW9mLXRoZS1zY3JpcHQ=";

/** What a model says in one turn. */
export interface ScriptedTurn {
  readonly thought: string;
  readonly text: string;
  readonly call: (ToolCall & { readonly id: string }) | null;
}

/** What a request says, in whatever API. */
export interface ScriptedRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly tools: readonly DeclaredTool[];
  /** The results of tools, in order: each is one step of the task. */
  readonly results: readonly string[];
  /** The model's own thoughts that came back, one for each of its turns; undefined where none did. */
  readonly thoughts: readonly (string | undefined)[];
}

/** An API that an upstream speaks. */
export interface ScriptedWire {
  /** The settings of a channel to it. */
  readonly channel: Json;
  /** Of its streams. */
  readonly contentType: string;
  read(body: Json, path: string): ScriptedRequest;
  whole(turn: ScriptedTurn, request: ScriptedRequest): unknown;
  /** The events of a stream, framed. */
  events(turn: ScriptedTurn, request: ScriptedRequest): readonly (string | Uint8Array)[];
}

export type Json = Readonly<Record<string, unknown>>;

export const serverSentEvents = "text/event-stream";

/** A server-sent event with its name. */
export function named(event: Json & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

export function list(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

export function object(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

export function declared(name: unknown, description: unknown, schema: unknown): DeclaredTool {
  const properties = object(object(schema)["properties"]) as DeclaredTool["properties"];
  return { name: String(name), description: typeof description === "string" ? description : "", properties };
}

/** A text in pieces, as a model streams it. */
export function words(value: string): readonly string[] {
  return value === "" ? [] : value.split(/(?<= )/);
}

/** Arguments in pieces, which do not end where a value ends. */
export function argumentPieces(call: ToolCall): readonly string[] {
  return JSON.stringify(call.arguments).match(/[^]{1,24}/g) ?? [];
}

/** What is refused in messages that have a role each: other roles, and calls without a result or the other way round. */
export function mistakeIn(messages: readonly Json[]): string | null {
  const open = new Set<string>();
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (!["system", "user", "assistant", "tool"].includes(String(role))) return `the role ${String(role)} is not known`;
    if (role === "tool" && !open.delete(String(tool_call_id))) return `nothing was called as ${String(tool_call_id)}`;
    if (role !== "tool" && open.size > 0) return `no results for ${[...open].join(", ")}`;
    for (const { id } of list(tool_calls)) open.add(String(id));
  }
  return open.size === 0 ? null : `no results for ${[...open].join(", ")}`;
}

/** The tools of an API that declares them as functions. */
export function declaredFunctions(tools: unknown): readonly DeclaredTool[] {
  return list(tools).map(({ function: tool }) => {
    const { name, description, parameters } = object(tool);
    return declared(name, description, parameters);
  });
}
