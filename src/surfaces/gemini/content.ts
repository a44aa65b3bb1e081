import {
  returnedValue,
  sealedBase64Prefix,
  type ConversationTurn,
  type FilePart,
  type ImagePart,
  type InputAudioPart,
  type Part,
  type ProviderValue,
  type TextPart,
  type ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { FieldReader } from "../field-reader.ts";
import type { Uncarried } from "../uncarried.ts";
import { base64ToText, standardBase64 } from "./base64.ts";
import { camelCase, value } from "./names.ts";

/** The dialect of upstreams that speak this API themselves: its signatures are theirs. */
export const ownDialect = "gemini";

type UserContentPart = TextPart | ImagePart | FilePart | InputAudioPart;

/** Reads the contents of a request as turns. */
export class GenerateContentReader {
  private readonly turns: ConversationTurn[] = [];
  /** How many calls there were: those without an id are numbered, so that an id depends on what came before it alone. */
  private calls = 0;
  /** The calls that have no result yet, in their order. */
  private open: { readonly id: string; readonly name: string }[] = [];

  constructor(
    private readonly fields: FieldReader,
    private readonly uncarried: Uncarried,
  ) {}

  read(instruction: unknown, contents: readonly unknown[]): readonly ConversationTurn[] {
    if (instruction != null) this.add("system", this.instruction(instruction));
    for (const [index, content] of contents.entries()) {
      this.content(content, `contents.${index}`);
      if (this.fields.mistake !== null) break;
    }
    return this.turns;
  }

  private add(role: ConversationTurn["role"], parts: readonly Part[]): void {
    if (parts.length > 0) this.turns.push({ role, parts });
  }

  /** A content, or a mere text. Only texts can be instructions. */
  private instruction(instruction: unknown): readonly TextPart[] {
    const path = "systemInstruction";
    if (typeof instruction === "string") return [{ kind: "text", text: instruction }];
    const parts = value(this.fields.object(instruction, path), "parts");
    return this.list(parts, `${path}.parts`).flatMap(([part, place]): readonly TextPart[] => {
      const text = this.fields.text(value(part, "text"), `${place}.text`);
      return text === "" ? [] : [{ kind: "text", text }];
    });
  }

  private content(content: unknown, path: string): void {
    const fields = this.fields.object(content, path);
    const role = this.fields.optionalText(value(fields, "role"), `${path}.role`) ?? "user";
    const parts = this.list(value(fields, "parts"), `${path}.parts`);
    switch (role) {
      case "model":
        return this.add(
          "assistant",
          parts.flatMap(([part, place]) => this.answerPart(part, place)),
        );
      case "system":
        return this.add(
          "system",
          parts.flatMap(([part, place]) => this.mediaPart(part, place)),
        );
      case "user":
      case "function":
      case "tool":
      case "":
        return this.userContent(parts);
      default:
        this.fields.invalid(`${path}.role`, `'${path}.role' must be one of: user, model.`);
    }
  }

  /** The results of tools are a turn of their own. */
  private userContent(parts: readonly PlacedPart[]): void {
    const results: ToolResultPart[] = [];
    const others: UserContentPart[] = [];
    for (const [part, place] of parts) {
      const response = value(part, "functionResponse");
      if (response == null) others.push(...this.mediaPart(part, place));
      else results.push(this.result(this.fields.object(response, `${place}.functionResponse`), `${place}.functionResponse`));
    }
    this.add("tool", results);
    this.add("user", others);
  }

  /** A list of parts that are objects, each with its path; one part may stand for a list. */
  private list(parts: unknown, path: string): readonly PlacedPart[] {
    if (parts == null) return [];
    const values = isJsonObject(parts) ? [parts] : this.fields.list(parts, path);
    return values.map((part, index): PlacedPart => [this.fields.object(part, `${path}.${index}`), `${path}.${index}`]);
  }

  private answerPart(part: JsonObject, place: string): readonly Part[] {
    const signature = this.signature(part, place);
    const call = value(part, "functionCall");
    if (call != null) {
      const fields = this.fields.object(call, `${place}.functionCall`);
      const name = this.fields.name(value(fields, "name"), `${place}.functionCall.name`);
      const given = this.fields.optionalText(value(fields, "id"), `${place}.functionCall.id`) ?? "";
      const id = given === "" ? `call_${this.calls}` : given;
      this.calls++;
      this.open.push({ id, name });
      const args = this.fields.optionalObject(value(fields, "args"), `${place}.functionCall.args`) ?? {};
      return [{ kind: "tool_call", id, name, arguments: JSON.stringify(args), ...(signature === null ? undefined : { signature }) }];
    }
    const text = value(part, "text");
    if (typeof text === "string") {
      if (value(part, "thought") === true) return text === "" && signature === null ? [] : [{ kind: "reasoning", text, signature }];
      return text === "" && signature === null ? [] : [{ kind: "text", text, ...(signature === null ? undefined : { signature }) }];
    }
    return this.mediaPart(part, place);
  }

  private signature(part: JsonObject, place: string): ProviderValue | null {
    const data = this.fields.optionalText(value(part, "thoughtSignature"), `${place}.thoughtSignature`) ?? "";
    if (data === "" || data === standIn) return null;
    // What is damaged does not open. It is not the provider's for that.
    if (data.startsWith(sealedBase64Prefix)) return { dialect: "sluice", data: base64ToText(data) ?? "" };
    return returnedValue(data, ownDialect);
  }

  private mediaPart(part: JsonObject, place: string): readonly UserContentPart[] {
    const text = value(part, "text");
    if (text != null) {
      const words = this.fields.text(text, `${place}.text`);
      return words === "" ? [] : [{ kind: "text", text: words }];
    }
    const data = value(part, "inlineData");
    if (data != null) return [this.inline(this.fields.object(data, `${place}.inlineData`), `${place}.inlineData`)];
    const file = value(part, "fileData");
    if (file != null) return [this.file(this.fields.object(file, `${place}.fileData`), `${place}.fileData`)];
    // What tools of an upstream wrote, and what nobody here has heard of.
    const kinds = Object.keys(part).filter((key) => part[key] !== null && !besides.has(camelCase(key)));
    if (kinds.length === 0 && Object.keys(part).length === 0) this.fields.invalid(place, `'${place}' is an empty part.`);
    for (const kind of kinds) this.uncarried.add(`contents.parts.${camelCase(kind)}`);
    return [];
  }

  private inline(media: JsonObject, place: string): UserContentPart {
    const mediaType = this.fields.name(value(media, "mimeType"), `${place}.mimeType`).toLowerCase();
    const data = standardBase64(this.fields.name(value(media, "data"), `${place}.data`));
    const format = audioFormats.get(mediaType);
    if (format !== undefined) return { kind: "audio", format, data };
    const source = { kind: "data", mediaType, data } as const;
    if (mediaType.startsWith("image/")) return { kind: "image", source };
    return { kind: "file", source, name: this.fields.optionalText(value(media, "displayName"), `${place}.displayName`) };
  }

  private file(file: JsonObject, place: string): UserContentPart {
    const url = this.fields.name(value(file, "fileUri"), `${place}.fileUri`);
    const mediaType = this.fields.optionalText(value(file, "mimeType"), `${place}.mimeType`) ?? "";
    const source = { kind: "url", url } as const;
    return mediaType.toLowerCase().startsWith("image/") ? { kind: "image", source } : { kind: "file", source, name: null };
  }

  /** A result without an id belongs to the first call of its name that has none yet. */
  private result(response: JsonObject, place: string): ToolResultPart {
    const name = this.fields.name(value(response, "name"), `${place}.name`);
    const given = this.fields.optionalText(value(response, "id"), `${place}.id`) ?? "";
    const known = this.open.findIndex((call) => (given === "" ? call.name === name : call.id === given));
    if (known === -1 && given === "") {
      this.fields.invalid(place, `'${place}' is the result of a call that is not in the conversation.`);
    }
    const callId = given === "" ? (this.open[known]?.id ?? "") : given;
    if (known !== -1) this.open.splice(known, 1);
    const media = this.list(value(response, "parts"), `${place}.parts`).flatMap(([part, at]) => this.mediaPart(part, at));
    const { text, isError } = resultText(this.fields.optionalObject(value(response, "response"), `${place}.response`) ?? {});
    return { kind: "tool_result", callId, content: text === "" ? media : [{ kind: "text", text }, ...media], isError };
  }
}

type PlacedPart = readonly [part: JsonObject, place: string];

/** What a client may send in place of a signature that it does not have. Here, no signature says the same. */
const standIn = "skip_thought_signature_validator";

/** Fields that say something about a part, and are none themselves. */
const besides: ReadonlySet<string> = new Set(["thought", "thoughtSignature"]);

const audioFormats: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/mp3", "mp3"],
  ["audio/mpeg", "mp3"],
]);

/** By convention, the outcome of a function is its `output` or its `error`. Everything else is told as it is. */
function resultText(response: JsonObject): { readonly text: string; readonly isError: boolean } {
  const [key, ...others] = Object.keys(response);
  const only = key === undefined || others.length > 0 ? null : response[key];
  if (key === "output" && typeof only === "string") return { text: only, isError: false };
  if (key === "error") return { text: typeof only === "string" ? only : JSON.stringify(only), isError: true };
  return { text: key === undefined ? "" : JSON.stringify(response), isError: false };
}
