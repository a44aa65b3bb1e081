import type { ConversationRole, ConversationTurn, Part, ToolCallPart, ToolResultPart } from "../../operations/conversation/conversation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { FieldReader } from "../field-reader.ts";
import type { Uncarried } from "../uncarried.ts";
import { contentParts, spokenParts, type ContentPart } from "./content.ts";
import { callSignature, reasoningText, sealedThoughts, withSealed } from "./reasoning.ts";
import { unsupported } from "./unsupported.ts";

/**
 * Reads messages into turns, one after the other: a turn depends on the messages before it and on none behind, so that a conversation that
 * goes on begins with the same turns. The results of the calls of one answer become one turn.
 */
export class MessageReader {
  private readonly all: { readonly role: ConversationRole; readonly parts: Part[] }[] = [];
  /** The calls that have no result yet. */
  private readonly unanswered = new Set<string>();
  /** What the last turn of results says about a call, by the call's id. */
  private readonly results = new Map<string, ContentPart[]>();

  constructor(
    private readonly fields: FieldReader,
    private readonly uncarried: Uncarried,
  ) {}

  read(messages: readonly unknown[]): readonly ConversationTurn[] {
    for (const [index, value] of messages.entries()) {
      if (this.fields.mistake !== null) break;
      const path = `messages.${index}`;
      this.message(this.fields.object(value, path), index, path);
    }
    return this.all;
  }

  private message(message: JsonObject, index: number, path: string): void {
    const { fields } = this;
    const role = fields.text(message["role"], `${path}.role`);
    if (role !== "function" && message["name"] != null) this.uncarried.add("messages.name");
    switch (role) {
      case "system":
      case "developer":
      case "user":
        return this.add(role, contentParts(message, path, fields));
      case "assistant":
        return this.add(role, this.answer(message, index, path));
      case "tool":
        return this.result(fields.optionalText(message["tool_call_id"], `${path}.tool_call_id`) ?? "", contentParts(message, path, fields));
      // Before there were tools, a result named its function, and answered the only call that there could be.
      case "function":
        return this.result("", contentParts(message, path, fields));
      default:
        if (fields.mistake === null) fields.fail(unsupported(`${path}.role`, `'${path}.role' is a role that this model does not know.`));
    }
  }

  private add(role: ConversationRole, parts: readonly Part[]): void {
    if (parts.length > 0) this.all.push({ role, parts: [...parts] });
  }

  private answer(message: JsonObject, index: number, path: string): readonly Part[] {
    const { fields } = this;
    const spoken = spokenParts(message, path, fields);
    const refusal = fields.optionalText(message["refusal"], `${path}.refusal`) ?? "";
    const isRefused = refusal !== "" && !spoken.some(({ kind }) => kind === "refusal");
    const thought = reasoningText(message);
    const parts: Part[] = [
      ...(thought === null ? [] : [thought]),
      ...spoken,
      ...(isRefused ? [{ kind: "refusal", text: refusal } as const] : []),
    ];
    this.reference(message, spoken.length > 0, path);
    for (const [number, value] of fields.optionalList(message["tool_calls"], `${path}.tool_calls`).entries()) {
      const place = `${path}.tool_calls.${number}`;
      const call = fields.object(value, place);
      if (fields.mistake !== null) break;
      parts.push(this.call(call, `call_${index}_${number}`, place));
    }
    const legacy = fields.optionalObject(message["function_call"], `${path}.function_call`);
    if (legacy !== null && !parts.some(({ kind }) => kind === "tool_call")) {
      parts.push(this.call({ function: legacy }, `call_${index}_0`, path));
    }
    return withSealed(parts, sealedThoughts(message));
  }

  /** An answer in audio is named by its id, and only the provider that gave it knows what was said. */
  private reference(message: JsonObject, hasWords: boolean, path: string): void {
    if (message["audio"] == null) return;
    if (hasWords) this.uncarried.add("messages.audio");
    else this.fields.fail(unsupported(`${path}.audio`, `'${path}.audio' refers to an answer that this model does not have.`));
  }

  /** Some clients send no ids, or empty ones: they get some, and results without an id answer the calls in their order. */
  private call(call: JsonObject, madeId: string, path: string): ToolCallPart {
    const { fields } = this;
    const id = fields.optionalText(call["id"], `${path}.id`) || madeId;
    const key = call["type"] === "custom" ? "custom" : "function";
    const called = fields.object(call[key], `${path}.${key}`);
    const signature = callSignature(call);
    this.unanswered.add(id);
    return {
      kind: "tool_call",
      id,
      name: fields.name(called["name"], `${path}.${key}.name`),
      arguments:
        key === "custom"
          ? fields.text(called["input"], `${path}.custom.input`)
          : argumentsText(called["arguments"], `${path}.function.arguments`, fields),
      ...(key === "custom" ? { custom: true } : undefined),
      ...(signature === null ? undefined : { signature }),
    };
  }

  private result(givenId: string, content: readonly ContentPart[]): void {
    const last = this.all.at(-1);
    const turn = last?.role === "tool" ? last.parts : null;
    const callId = givenId === "" ? (this.unanswered.values().next().value ?? "") : givenId;
    const before = turn === null ? undefined : this.results.get(callId);
    // Upstreams take one result of a call. What a client tells about it later is added.
    if (before !== undefined) {
      for (const part of content) before.push(part);
      return;
    }
    // They refuse a result without its call, which the client may have cut off with the beginning of the conversation.
    if (!this.unanswered.delete(callId)) {
      return this.add("user", [{ kind: "text", text: "The result of an earlier tool call:" }, ...content]);
    }
    const said = [...content];
    const result: ToolResultPart = { kind: "tool_result", callId, content: said, isError: false };
    if (turn === null) {
      this.results.clear();
      this.add("tool", [result]);
    } else turn.push(result);
    this.results.set(callId, said);
  }
}

/** Some clients send the arguments as an object instead of as text. */
function argumentsText(value: unknown, path: string, fields: FieldReader): string {
  if (isJsonObject(value)) return JSON.stringify(value);
  return fields.optionalText(value, path) ?? "";
}
