import type { ChatAnswer, Finish, FinishReason, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Part, Tool, ToolCallPart } from "../../operations/conversation/conversation.ts";
import { CustomInputReader, unwrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { ToolNames } from "../../operations/conversation/tool-names.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { tokenUsage } from "../../operations/usage.ts";
import { callValue, ReasoningPieces } from "./reasoning-value.ts";
import { filledTextOf, numberOf, objectOf } from "../untrusted.ts";

type Json = Readonly<Record<string, unknown>>;

/** The parts of a complete answer, of which `readAnswer` has found that it is one. Only the first choice is read. */
export function chatAnswer(body: Uint8Array, tools: readonly Tool[]): ChatAnswer | Failure {
  const answer = objectOf(JSON.parse(decoder.decode(body)));
  const choices = answer?.["choices"];
  const choice = Array.isArray(choices) ? objectOf((choices as readonly unknown[])[0]) : null;
  // Where all of an answer was filtered, some upstreams leave the message out.
  const message = objectOf(choice?.["message"]) ?? (choice?.["finish_reason"] === "content_filter" ? {} : null);
  if (message === null) return failure("bad_response", "the answer's choice has no message");
  const reason = choice?.["finish_reason"];
  const names = new ToolNames(tools);
  const parts: Part[] = [];
  const reasoning = new ReasoningPieces();
  const thought = reasoning.add(message);
  const closed = reasoning.close();
  if (closed !== null) {
    parts.push({ kind: "reasoning", text: thought, signature: closed.signature, ...(closed.redacted ? { redacted: true } : undefined) });
  }
  const text = textOf(message["content"]);
  if (text !== "") parts.push({ kind: "text", text });
  if (typeof message["refusal"] === "string" && message["refusal"] !== "") parts.push({ kind: "refusal", text: message["refusal"] });
  for (const call of callsOf(message)) {
    const named = objectOf(call["function"]);
    const name = typeof named?.["name"] === "string" ? named["name"] : "";
    const tool = names.toolOf(name);
    const args = argumentsOf(named?.["arguments"]);
    parts.push({
      kind: "tool_call",
      id: filledTextOf(call["id"]) ?? "",
      ...calledAs(tool, name),
      ...signedBy(call),
      arguments: tool?.custom === undefined ? args || "{}" : unwrapCustomInput(args),
    });
  }
  const calls = parts.some(({ kind }) => kind === "tool_call");
  return {
    id: filledTextOf(answer?.["id"]),
    model: filledTextOf(answer?.["model"]),
    createdSeconds: numberOf(answer?.["created"]),
    parts,
    finish: finishOf(reason, calls),
    usage: tokenUsage(answer?.["usage"]),
  };
}

/** The parts of the chunks of a stream. Only the first choice is read; a translated request asks for no other. */
export class ChunkParts {
  private started = false;
  private readonly reasoning = new ReasoningPieces();
  private readonly calls = new Map<number, OpenCall>();
  private callCount = 0;
  private readonly names: ToolNames;

  constructor(tools: readonly Tool[]) {
    this.names = new ToolNames(tools);
  }

  read(chunk: Json): readonly StreamPart[] {
    const parts: StreamPart[] = [];
    if (!this.started) {
      this.started = true;
      parts.push({
        kind: "start",
        id: filledTextOf(chunk["id"]),
        model: filledTextOf(chunk["model"]),
        createdSeconds: numberOf(chunk["created"]),
      });
    }
    const choices = Array.isArray(chunk["choices"]) ? (chunk["choices"] as readonly unknown[]) : [];
    const choice = objectOf(choices.find((one) => (objectOf(one)?.["index"] ?? 0) === 0));
    if (choice === null) return parts;
    const delta = objectOf(choice["delta"]);
    if (delta !== null) this.readDelta(delta, parts);
    const reason = filledTextOf(choice["finish_reason"]);
    if (reason !== null) {
      this.closeReasoning(parts);
      for (const [index, call] of this.calls) this.closeCall(index, call, parts);
      parts.push({ kind: "finish", finish: finishOf(reason, this.calls.size > 0) });
    }
    return parts;
  }

  private readDelta(delta: Json, parts: StreamPart[]): void {
    const thought = this.reasoning.add(delta);
    if (thought !== "") parts.push({ kind: "reasoning", text: thought });
    const text = textOf(delta["content"]);
    const refusal = typeof delta["refusal"] === "string" ? delta["refusal"] : "";
    const calls = callsOf(delta);
    if (text !== "" || refusal !== "" || calls.length > 0) this.closeReasoning(parts);
    if (text !== "") parts.push({ kind: "text", text });
    if (refusal !== "") parts.push({ kind: "refusal", text: refusal });
    for (const call of calls) this.readCall(call, parts);
  }

  private closeReasoning(parts: StreamPart[]): void {
    const closed = this.reasoning.close();
    if (closed !== null) parts.push({ kind: "reasoning_signature", ...closed });
  }

  /**
   * The name comes with the first piece of a call. Some upstreams repeat the id or the name in every piece: only the first counts. Others
   * give parallel calls the same index: another id and a name begin another call.
   */
  private readCall(piece: Json, parts: StreamPart[]): void {
    const index = typeof piece["index"] === "number" && piece["index"] < callsMax ? piece["index"] : this.lastIndex(piece);
    const named = objectOf(piece["function"]);
    const name = filledTextOf(named?.["name"]) ?? "";
    const id = filledTextOf(piece["id"]) ?? "";
    let call = this.calls.get(index);
    if (call === undefined || (name !== "" && id !== "" && call.id !== "" && id !== call.id)) {
      if (name === "" || this.callCount >= callsMax) return;
      if (call !== undefined) this.closeCall(index, call, parts);
      const tool = this.names.toolOf(name);
      this.callCount++;
      call = { id, input: tool?.custom === undefined ? null : new CustomInputReader() };
      this.calls.set(index, call);
      parts.push({ kind: "tool_call", index, id: call.id, ...calledAs(tool, name), ...signedBy(piece) });
    }
    const args = argumentsOf(named?.["arguments"]);
    const text = call.input === null ? args : call.input.push(args);
    if (text !== "") parts.push({ kind: "tool_arguments", index, text });
  }

  /** Without an index, a piece with an id that was not seen begins another call, and one without belongs to the last. */
  private lastIndex(piece: Json): number {
    const last = [...this.calls.keys()].at(-1) ?? -1;
    const id = filledTextOf(piece["id"]);
    const known = [...this.calls].find(([, call]) => call.id === id);
    if (known !== undefined) return known[0];
    return id !== null && objectOf(piece["function"])?.["name"] !== undefined ? last + 1 : Math.max(0, last);
  }

  private closeCall(index: number, { input }: OpenCall, parts: StreamPart[]): void {
    const text = input?.close() ?? "";
    if (text !== "") parts.push({ kind: "tool_arguments", index, text });
  }
}

interface OpenCall {
  readonly id: string;
  /** Unwraps the text of a custom tool. */
  readonly input: CustomInputReader | null;
}

/** More calls than any answer makes. */
const callsMax = 1024;

type CalledAs = Pick<ToolCallPart, "name" | "namespace" | "custom" | "search">;

function calledAs(tool: Tool | null, name: string): CalledAs {
  if (tool === null) return { name };
  return {
    name: tool.name,
    ...(tool.namespace === undefined ? undefined : { namespace: tool.namespace }),
    ...(tool.custom === undefined ? undefined : { custom: true as const }),
    ...(tool.search === undefined ? undefined : { search: tool.search }),
  };
}

function signedBy(call: Json): Pick<ToolCallPart, "signature"> | undefined {
  const signature = callValue(call["extra_content"]);
  return signature === undefined ? undefined : { signature };
}

function callsOf(message: Json): readonly Json[] {
  const calls = message["tool_calls"];
  if (Array.isArray(calls)) return (calls as readonly unknown[]).map(objectOf).filter((call) => call !== null);
  const legacy = objectOf(message["function_call"]);
  return legacy === null ? [] : [{ index: 0, function: legacy }];
}

/** Some upstreams send the arguments as an object instead of as text. */
function argumentsOf(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" && value !== null ? JSON.stringify(value) : "";
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as readonly unknown[])
    .map((part) => objectOf(part)?.["text"])
    .filter((text) => typeof text === "string")
    .join("");
}

function finishOf(reason: unknown, calls: boolean): Finish {
  return { reason: reasonOf(reason, calls), stopSequence: null };
}

/** Some upstreams say `stop` after a tool call. */
function reasonOf(reason: unknown, calls: boolean): FinishReason {
  switch (reason) {
    case "length":
    case "content_filter":
      return reason;
    // The context of the model was full, or the server saw it repeat itself.
    case "model_length":
    case "repetition":
      return "length";
    case "tool_calls":
    case "function_call":
      return "tool_calls";
    default:
      return calls ? "tool_calls" : "stop";
  }
}

const decoder = new TextDecoder();
