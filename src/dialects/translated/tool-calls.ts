import type { StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Tool, ToolCallPart } from "../../operations/conversation/conversation.ts";
import { CustomInputReader, unwrapCustomInput, wrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { ToolNames, wireName } from "../../operations/conversation/tool-names.ts";
import type { JsonObject } from "../../operations/json.ts";

/**
 * The arguments of a call as an object to be printed, for upstreams that take no other. What is none is wrapped, and never lost; the text
 * of a custom tool is the `input` of its function. Numbers are printed as they were written: parsed, long ones would lose digits.
 */
export function argumentsObject(call: Pick<ToolCallPart, "arguments" | "custom">): JsonObject {
  const text = call.custom === true ? wrapCustomInput(call.arguments) : call.arguments;
  if (text.trim() === "") return {};
  try {
    const value: unknown = /\d{16}/.test(text) ? JSON.parse(text, asWritten) : JSON.parse(text);
    if (value === null) return {};
    if (typeof value === "object" && !Array.isArray(value)) return value as JsonObject;
  } catch {
    // Wrapped below.
  }
  return { _raw: text };
}

function asWritten(this: unknown, _key: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  return typeof value === "number" && source !== undefined ? rawJson(source) : value;
}

/** "JSON.parse source text access" of ECMAScript, which the compiler does not know yet. */
const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

/** An id in the alphabet that most APIs accept. It depends on the id alone, so that a call and its result keep the same one. */
export function wireId(id: string): string {
  return wireName({ name: id });
}

/** The same in nine letters and digits. One that is such an id already stays as it is. */
export function shortWireId(id: string): string {
  if (/^[A-Za-z0-9]{9}$/.test(id)) return id;
  let hash = 0xcbf29ce484222325n;
  for (let at = 0; at < id.length; at++) hash = BigInt.asUintN(64, (hash ^ BigInt(id.charCodeAt(at))) * 0x100000001b3n);
  return hash.toString(36).padStart(9, "0").slice(-9);
}

/** The calls of an answer, under the names that the client declared its tools with. */
export class AnsweredCalls {
  private readonly names: ToolNames;
  private readonly open = new Map<number, OpenToolCall>();
  /** How many calls there were. */
  count = 0;

  constructor(tools: readonly Tool[]) {
    this.names = new ToolNames(tools);
  }

  /** A call of a complete answer. `args` is JSON. */
  whole(id: string, name: string, args: string): ToolCallPart {
    this.count++;
    const tool = this.names.toolOf(name);
    return {
      kind: "tool_call",
      id,
      ...calledAs(tool, name),
      arguments: tool?.custom === undefined ? args : unwrapCustomInput(args),
    };
  }

  /** A call of a stream begins. `key` is what the upstream tells its calls apart by. */
  begin(key: number, id: string, name: string): readonly StreamPart[] {
    if (this.count >= callsMax) return [];
    const tool = this.names.toolOf(name);
    const call = { index: this.count++, input: tool?.custom === undefined ? null : new CustomInputReader(), hasArguments: false };
    this.open.set(key, call);
    return [{ kind: "tool_call", index: call.index, id, ...calledAs(tool, name) }];
  }

  add(key: number, args: string): readonly StreamPart[] {
    const call = this.open.get(key);
    if (call === undefined || args === "") return [];
    call.hasArguments = true;
    const text = call.input === null ? args : call.input.push(args);
    return text === "" ? [] : [{ kind: "tool_arguments", index: call.index, text }];
  }

  /** Ends a call. One without arguments gets an empty object, because an empty text is no JSON. */
  end(key: number): readonly StreamPart[] {
    const call = this.open.get(key);
    if (call === undefined) return [];
    this.open.delete(key);
    const text = call.input === null ? (call.hasArguments ? "" : "{}") : call.input.close();
    return text === "" ? [] : [{ kind: "tool_arguments", index: call.index, text }];
  }

  endAll(): readonly StreamPart[] {
    return [...this.open.keys()].flatMap((key) => this.end(key));
  }
}

interface OpenToolCall {
  readonly index: number;
  /** Unwraps the text of a custom tool. */
  readonly input: CustomInputReader | null;
  hasArguments: boolean;
}

/** More calls than any answer makes. */
const callsMax = 1024;

type DeclaredName = Pick<ToolCallPart, "name" | "namespace" | "custom" | "search">;

function calledAs(tool: Tool | null, name: string): DeclaredName {
  if (tool === null) return { name };
  return {
    name: tool.name,
    ...(tool.namespace === undefined ? undefined : { namespace: tool.namespace }),
    ...(tool.custom === undefined ? undefined : { custom: true as const }),
    ...(tool.search === undefined ? undefined : { search: tool.search }),
  };
}
