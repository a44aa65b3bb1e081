import {
  returnedValue,
  type InputAudioPart,
  type FilePart,
  type ImagePart,
  type MediaSource,
  type Part,
  type ReasoningPart,
  type ConversationRole,
  type TextPart,
  type ToolResultPart,
  type ConversationTurn,
} from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { mistake } from "../../operations/mistakes.ts";
import type { FieldReader } from "../field-reader.ts";
import { mediaSource } from "../media-source.ts";
import type { Uncarried } from "../uncarried.ts";
import { ownDialect, ownReasoningId } from "./response.ts";

/** Reads the items of an input into turns: what one answer consisted of becomes one turn, and so do the results that follow it. */
export class ItemReader {
  private readonly all: { readonly role: ConversationRole; readonly parts: Part[] }[] = [];
  /** The calls that have no result yet. */
  private readonly callIds = new Set<string>();
  /** The last turn has a call. */
  private called = false;
  /** What the last turn of results says about a call, by the call's id. */
  private readonly results = new Map<string, GrowingResult>();
  /** Tools that an item of the input adds. */
  readonly tools: unknown[] = [];

  constructor(
    private readonly fields: FieldReader,
    private readonly uncarried: Uncarried,
  ) {}

  get turns(): readonly ConversationTurn[] {
    return this.all;
  }

  read(items: readonly unknown[]): void {
    for (const [index, value] of items.entries()) {
      if (this.fields.mistake !== null) return;
      const path = `input.${index}`;
      this.item(this.fields.object(value, path), path);
    }
  }

  /** Adds a part to the last turn where that is of the same role and goes on; else to a new one. */
  add(role: ConversationRole, part: Part): void {
    const last = this.all.at(-1);
    const goesOn = last?.role === role && (role === "tool" || (role === "assistant" && !(this.called && follows(part))));
    if (goesOn) last.parts.push(part);
    else this.begin(role, [part]);
    this.called ||= part.kind === "tool_call";
  }

  private begin(role: ConversationRole, parts: Part[]): void {
    this.all.push({ role, parts });
    this.called = false;
    this.results.clear();
  }

  private item(item: JsonObject, path: string): void {
    const { fields } = this;
    const type = fields.optionalText(item["type"], `${path}.type`) ?? "message";
    switch (type) {
      case "message":
        return this.message(item, path);
      case "function_call":
      case "custom_tool_call":
        return this.call(item, path, type === "custom_tool_call");
      case "function_call_output":
      case "custom_tool_call_output":
        return this.output(item, path);
      case "tool_search_call":
        return this.search(item, path);
      case "tool_search_output":
        return this.found(item, path);
      case "reasoning":
        return this.reasoning(item, path);
      case "additional_tools":
        this.tools.push(...fields.optionalList(item["tools"], `${path}.tools`));
        return;
      case "item_reference":
        return fields.fail(
          mistake(
            `'${path}' refers to an item that this gateway does not have: it keeps the items of its own answers, and not for long. Send the item itself, as clients do with 'store' set to false. Several workers or replicas share these items through Redis only.`,
            "unsupported_parameter",
            path,
          ),
        );
      default:
        this.uncarried.add(`input.${type}`);
    }
  }

  private message(item: JsonObject, path: string): void {
    const { fields } = this;
    const role = fields.text(item["role"], `${path}.role`);
    if (!isRole(role)) return fields.invalid(`${path}.role`, `'${path}.role' must be one of: user, assistant, system, developer.`);
    const content = item["content"];
    const parts =
      typeof content === "string"
        ? [{ kind: "text", text: content } as const]
        : fields.list(content, `${path}.content`).flatMap((part, index) => this.part(part, `${path}.content.${index}`));
    if (role === "assistant") for (const part of parts) this.add(role, part);
    else if (parts.length > 0) this.begin(role, [...parts]);
  }

  private part(value: unknown, path: string): readonly Part[] {
    const { fields } = this;
    const part = fields.object(value, path);
    const type = fields.text(part["type"], `${path}.type`);
    switch (type) {
      case "input_text":
      case "output_text":
      case "text":
        return [{ kind: "text", text: fields.text(part["text"], `${path}.text`) }];
      case "refusal":
        return [{ kind: "refusal", text: fields.text(part["refusal"], `${path}.refusal`) }];
      case "input_image":
        return [this.image(part, path)];
      case "input_file":
        return [this.file(part, path)];
      case "input_audio":
        return [this.audio(fields.object(part["input_audio"], `${path}.input_audio`), `${path}.input_audio`)];
      default:
        this.uncarried.add(`input.content.${type}`);
        return [];
    }
  }

  private image(part: JsonObject, path: string): ImagePart {
    const { fields } = this;
    const detail = fields.optionalText(part["detail"], `${path}.detail`);
    const id = fields.optionalText(part["file_id"], `${path}.file_id`);
    const source: MediaSource = id === null ? mediaSource(fields.text(part["image_url"], `${path}.image_url`)) : { kind: "id", id };
    return { kind: "image", source, ...(detail === null ? undefined : { detail }) };
  }

  private file(part: JsonObject, path: string): FilePart {
    const { fields } = this;
    const name = fields.optionalText(part["filename"], `${path}.filename`);
    const id = fields.optionalText(part["file_id"], `${path}.file_id`);
    if (id !== null) return { kind: "file", source: { kind: "id", id }, name };
    const url = fields.optionalText(part["file_url"], `${path}.file_url`);
    if (url !== null) return { kind: "file", source: { kind: "url", url }, name };
    return { kind: "file", source: mediaSource(fields.text(part["file_data"], `${path}.file_data`)), name };
  }

  private audio(audio: JsonObject, path: string): InputAudioPart {
    const { fields } = this;
    return { kind: "audio", format: fields.text(audio["format"], `${path}.format`), data: fields.text(audio["data"], `${path}.data`) };
  }

  private call(item: JsonObject, path: string, custom: boolean): void {
    const { fields } = this;
    const id = fields.name(item["call_id"], `${path}.call_id`);
    const namespace = fields.optionalText(item["namespace"], `${path}.namespace`);
    this.callIds.add(id);
    this.add("assistant", {
      kind: "tool_call",
      id,
      name: fields.name(item["name"], `${path}.name`),
      arguments: custom ? fields.text(item["input"], `${path}.input`) : fields.text(item["arguments"], `${path}.arguments`),
      ...(custom ? { custom: true } : undefined),
      ...(namespace === null ? undefined : { namespace }),
    });
  }

  /** A search that an upstream did by itself has no id, and nobody waits for its result. */
  private search(item: JsonObject, path: string): void {
    const id = this.fields.optionalText(item["call_id"], `${path}.call_id`);
    if (id === null) return this.uncarried.add("input.tool_search_call");
    this.callIds.add(id);
    const args = JSON.stringify(item["arguments"] ?? {});
    this.add("assistant", { kind: "tool_call", id, name: searchName, arguments: args, search: true });
  }

  /** The tools that the client found are declared from now on; the model is told their names. */
  private found(item: JsonObject, path: string): void {
    const { fields } = this;
    const tools = fields.optionalList(item["tools"], `${path}.tools`);
    this.tools.push(...tools);
    const callId = fields.optionalText(item["call_id"], `${path}.call_id`);
    if (callId === null) return this.uncarried.add("input.tool_search_output");
    const names = tools.flatMap((tool) => namesOf(tool));
    const text = names.length === 0 ? "No tools were found." : `These tools were found and can be called now: ${names.join(", ")}`;
    this.result(callId, [{ kind: "text", text }], false);
  }

  private output(item: JsonObject, path: string): void {
    const { fields } = this;
    const callId = fields.name(item["call_id"], `${path}.call_id`);
    const { output } = item;
    const content: ToolResultPart["content"] =
      typeof output === "string"
        ? [{ kind: "text", text: output }]
        : fields.list(output, `${path}.output`).flatMap((part, index) => this.part(part, `${path}.output.${index}`).filter(isContent));
    this.result(callId, content, item["status"] === "failed");
  }

  private result(callId: string, content: ToolResultPart["content"], isError: boolean): void {
    // Upstreams take one result of a call. A client may report more of it, also later: it is added, or told by the user.
    const first = this.results.get(callId);
    if (first !== undefined) {
      for (const part of content) first.content.push(part);
      first.isError ||= isError;
      return;
    }
    // Upstreams refuse a result without its call, which the client may have cut off with the beginning of the conversation.
    if (!this.callIds.delete(callId))
      return this.begin("user", [{ kind: "text", text: "The result of an earlier tool call:" }, ...content]);
    const result: GrowingResult = { kind: "tool_result", callId, content: [...content], isError };
    this.add("tool", result);
    this.results.set(callId, result);
  }

  /** Of an upstream that shows all of its reasoning, we sent all of it as the summary: the id tells. */
  private reasoning(item: JsonObject, path: string): void {
    const { fields } = this;
    const isOwn = ownReasoningId.test(fields.optionalText(item["id"], `${path}.id`) ?? "");
    const texts = (key: "summary" | "content"): string =>
      fields
        .optionalList(item[key], `${path}.${key}`)
        .map((part) => (isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
        .join("\n");
    const content = texts("content");
    const sealed = fields.optionalText(item["encrypted_content"], `${path}.encrypted_content`);
    const part: ReasoningPart = {
      kind: "reasoning",
      text: content === "" ? texts("summary") : content,
      ...(content === "" && !isOwn ? { summary: true } : undefined),
      signature: sealed === null || sealed === "" ? null : returnedValue(sealed, ownDialect),
    };
    if (part.text !== "" || part.signature !== null) this.add("assistant", part);
  }
}

/** A result of which more may follow. */
interface GrowingResult extends ToolResultPart {
  readonly content: ToolResultPart["content"][number][];
  isError: boolean;
}

/** What a search for tools is called where it is a function like any other. */
export const searchName = "tool_search";

/** The names of a declared tool, or of all tools of a namespace, as an upstream knows them. */
function namesOf(tool: unknown): readonly string[] {
  if (!isJsonObject(tool) || typeof tool["name"] !== "string") return [];
  const { name: namespace, tools } = tool;
  if (tool["type"] !== "namespace") return [wireName({ name: namespace })];
  const inner = Array.isArray(tools) ? (tools as readonly unknown[]) : [];
  return inner.flatMap((one) => (isJsonObject(one) && typeof one["name"] === "string" ? [wireName({ name: one["name"], namespace })] : []));
}

/** After a call, words or thoughts begin another answer. A signature that is carried belongs to the next call, or to the words before. */
function follows(next: Part): boolean {
  const carries = next.kind === "reasoning" && next.text === "" && next.signature?.dialect === "sluice";
  return next.kind !== "tool_call" && !carries;
}

function isRole(role: string): role is "user" | "assistant" | "system" | "developer" {
  return role === "user" || role === "assistant" || role === "system" || role === "developer";
}

function isContent(part: Part): part is TextPart | ImagePart | FilePart | InputAudioPart {
  return part.kind === "text" || part.kind === "image" || part.kind === "file" || part.kind === "audio";
}
