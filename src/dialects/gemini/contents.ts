import type {
  ConversationTurn,
  FilePart,
  ImagePart,
  InputAudioPart,
  MediaSource,
  Part,
  ProviderValue,
  ToolCallPart,
  ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { wrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { ModelFacts } from "./model-facts.ts";
import { dialectName } from "./response-parts.ts";

/** The turns of a request. */
export interface GeminiContents {
  readonly system: readonly JsonObject[];
  readonly contents: readonly GeminiContent[];
}

export interface GeminiContent {
  readonly role: "user" | "model";
  readonly parts: readonly JsonObject[];
}

/** What may stand in for the signature of a call that another model made, or whose client lost it. The provider documents it. */
export const unsignedCall = "skip_thought_signature_validator";

/**
 * Each step is encoded by itself and appended, so that a conversation that goes on begins with the same contents: prompt caches depend on
 * it. An answer of the model is one content however many turns it has, and so are the results that follow it: the API refuses a call or
 * a result that does not follow the other side's content.
 */
export function encodeContents(turns: readonly ConversationTurn[], facts: ModelFacts): GeminiContents {
  const first = turns.findIndex(({ role }) => !isInstruction(role));
  const leading = first === -1 ? turns : turns.slice(0, first);
  const instructions = leading.flatMap(({ parts }) => parts.flatMap(textParts));
  const keepsSystem = facts.systemInstruction && first !== -1;
  const contents: GeminiContent[] = [];
  const add = (role: GeminiContent["role"], parts: readonly JsonObject[]): void => {
    if (parts.length > 0) contents.push({ role, parts });
  };
  if (!keepsSystem) add("user", instructions);
  const calls = new CallList();
  for (const { role, parts } of first === -1 ? [] : stepsOf(turns.slice(first))) {
    switch (role) {
      case "system":
      case "developer":
        add("user", parts.flatMap(textParts).map(inPlace));
        break;
      case "user":
        add("user", parts.flatMap(userParts));
        break;
      case "assistant":
        calls.note(parts);
        add("model", answerParts(parts, facts));
        break;
      case "tool":
        add("user", resultsOf(parts, calls, facts));
        break;
    }
  }
  return { system: keepsSystem ? instructions : [], contents };
}

function isInstruction(role: ConversationTurn["role"]): boolean {
  return role === "system" || role === "developer";
}

/** The turns, with those of an answer and those of its results made one each. */
function stepsOf(turns: readonly ConversationTurn[]): readonly ConversationTurn[] {
  const steps: { readonly role: ConversationTurn["role"]; readonly parts: Part[] }[] = [];
  for (const { role, parts } of turns) {
    const last = steps.at(-1);
    if (last?.role === role && (role === "assistant" || role === "tool")) last.parts.push(...parts);
    else steps.push({ role, parts: [...parts] });
  }
  return steps;
}

/** The calls of the conversation so far: a result names only the id of its call. */
class CallList {
  private readonly calls = new Map<string, { readonly call: ToolCallPart; readonly at: number }>();
  private count = 0;

  note(parts: readonly Part[]): void {
    for (const part of parts) if (part.kind === "tool_call") this.calls.set(part.id, { call: part, at: this.count++ });
  }

  get(id: string): ToolCallPart | null {
    return this.calls.get(id)?.call ?? null;
  }

  placeOf(id: string): number {
    return this.calls.get(id)?.at ?? this.count;
  }
}

function textParts(part: Part): readonly JsonObject[] {
  return part.kind === "text" && part.text !== "" ? [{ text: part.text }] : [];
}

/** The API has no instructions between the turns: they stand at their place, as what the user's side says. */
function inPlace({ text }: JsonObject): JsonObject {
  return { text: `<system>\n${String(text)}\n</system>` };
}

function userParts(part: Part): readonly JsonObject[] {
  switch (part.kind) {
    case "text":
    case "refusal":
      return part.text === "" ? [] : [{ text: part.text }];
    case "image":
    case "audio":
    case "file":
      return [mediaPart(part)];
    default:
      return [];
  }
}

function answerParts(parts: readonly Part[], facts: ModelFacts): readonly JsonObject[] {
  // Only the first call of a step is signed; the others that were made with it are not, and need nothing instead.
  let isFirstCall = true;
  const encoded: JsonObject[] = [];
  for (const part of parts) {
    switch (part.kind) {
      case "text": {
        const signature = signed(part.signature);
        if (part.text !== "" || signature !== undefined) encoded.push({ text: part.text, ...signature });
        break;
      }
      case "refusal":
        if (part.text !== "") encoded.push({ text: part.text });
        break;
      case "reasoning": {
        // Thoughts are not sent back, except for those that were signed.
        const signature = signed(part.signature);
        if (signature !== undefined) encoded.push({ text: part.text, thought: true, ...signature });
        break;
      }
      case "tool_call":
        encoded.push({
          functionCall: { ...(facts.callIds ? { id: part.id } : undefined), name: wireName(part), args: argumentsOf(part) },
          ...(signed(part.signature) ?? (isFirstCall && facts.signedCalls ? { thoughtSignature: unsignedCall } : undefined)),
        });
        isFirstCall = false;
        break;
      case "image":
      case "audio":
      case "file":
        encoded.push(mediaPart(part));
        break;
      case "tool_result":
        break;
    }
  }
  return encoded;
}

/** A signature goes back as it came, on the part that it came with, and to nobody but its maker. */
function signed(value: ProviderValue | null | undefined): { readonly thoughtSignature: string } | undefined {
  return value?.dialect === dialectName ? { thoughtSignature: value.data } : undefined;
}

/** Arguments are an object here: what is none is wrapped, and never lost. */
function argumentsOf({ arguments: text, custom }: ToolCallPart): JsonObject {
  const json = custom === true ? wrapCustomInput(text) : text;
  if (json.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(json);
    if (isJsonObject(value)) return value;
    if (value === null) return {};
  } catch {
    // Wrapped below.
  }
  return { _raw: json };
}

/** Two results of one call are refused; the last one counts. Where calls have no ids, results are told apart by their order. */
function resultsOf(parts: readonly Part[], calls: CallList, facts: ModelFacts): readonly JsonObject[] {
  const results = new Map<string, ToolResultPart>();
  for (const part of parts) if (part.kind === "tool_result") results.set(part.callId, part);
  const ordered = [...results.values()].toSorted((a, b) => calls.placeOf(a.callId) - calls.placeOf(b.callId));
  return ordered.flatMap((result) => resultParts(result, calls.get(result.callId), facts));
}

function resultParts({ callId, content, isError }: ToolResultPart, call: ToolCallPart | null, facts: ModelFacts): readonly JsonObject[] {
  const texts = content.flatMap((part) => (part.kind === "text" ? [part.text] : []));
  const media = content.flatMap((part) => (part.kind === "text" ? [] : [mediaPart(part)]));
  const inside = facts.resultMedia ? media.filter((part) => "inlineData" in part) : [];
  const beside = facts.resultMedia ? media.filter((part) => !("inlineData" in part)) : media;
  return [
    {
      functionResponse: {
        ...(facts.callIds ? { id: callId } : undefined),
        name: call === null ? unknownTool : wireName(call),
        response: responseOf(texts.join("\n"), isError),
        ...(inside.length === 0 ? undefined : { parts: inside }),
      },
    },
    ...beside,
  ];
}

/** The result of a call that the conversation does not have. */
const unknownTool = "unknown_tool";

/**
 * A response is an object. One that has references of its own is sent as text, because the API would resolve them; and so is one with
 * numbers that would lose digits, such as long ids.
 */
function responseOf(text: string, isError: boolean): JsonObject {
  if (isError) return { error: text };
  if (text.startsWith("{") && !text.includes('"$ref"') && !hasLargeNumber(text)) {
    try {
      const value: unknown = JSON.parse(text);
      if (isJsonObject(value)) return value;
    } catch {
      // It is a text.
    }
  }
  return { output: text };
}

function hasLargeNumber(text: string): boolean {
  for (const [, digits] of text.matchAll(/[:[,\s](-?\d{16,})/g)) if (!Number.isSafeInteger(Number(digits))) return true;
  return false;
}

function mediaPart(part: ImagePart | FilePart | InputAudioPart): JsonObject {
  if (part.kind === "audio") return { inlineData: { mimeType: `audio/${part.format}`, data: part.data } };
  const { source } = part;
  switch (source.kind) {
    case "data":
      return { inlineData: { mimeType: source.mediaType, data: source.data } };
    case "url":
      return { fileData: { ...mimeTypeOf(source.url), fileUri: source.url } };
    case "text":
      return { text: part.kind === "file" && part.name !== null ? `${part.name}:\n\n${source.text}` : source.text };
    case "id":
      return { fileData: { fileUri: source.id } };
  }
}

/** The API guesses the type of a URL only where the server that it fetches it from says it. */
function mimeTypeOf(url: string): { readonly mimeType: string } | undefined {
  const end = /\.([a-z0-9]{2,5})(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? "";
  const mimeType = mimeTypes.get(end);
  return mimeType === undefined ? undefined : { mimeType };
}

const mimeTypes: ReadonlyMap<string, string> = new Map([
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["webp", "image/webp"],
  ["gif", "image/gif"],
  ["heic", "image/heic"],
  ["pdf", "application/pdf"],
  ["txt", "text/plain"],
  ["mp3", "audio/mp3"],
  ["wav", "audio/wav"],
  ["mp4", "video/mp4"],
]);

/** Content that this model cannot read. Another channel may be able to. */
export function unreadableIn(turns: readonly ConversationTurn[], facts: ModelFacts): Failure | null {
  for (const { parts } of turns) {
    for (const part of parts) {
      for (const one of part.kind === "tool_result" ? part.content : [part]) {
        if (one.kind !== "image" && one.kind !== "file") continue;
        const found = unreadable(one.source, facts);
        if (found !== null) return found;
      }
    }
  }
  return null;
}

function unreadable(source: MediaSource, { fetchesUrls }: ModelFacts): Failure | null {
  if (source.kind === "id") return foreignFile;
  if (source.kind !== "url" || uploaded.test(source.url)) return null;
  return fetchesUrls && source.url.startsWith("https://") ? null : notFetched;
}

/** Files that were uploaded to the provider, and those in its storage. */
const uploaded = /^https:\/\/[\w.-]+\.googleapis\.com\/|^gs:\/\//;

const notFetched = failure("unsupported", "the model fetches no files from this URL", {
  message: "This model takes images and files as base64 data, or from a public https URL if it is a recent one.",
});
const foreignFile = failure("unsupported", "the upstream does not have this uploaded file", {
  message: "This model takes images and files by URL or as base64 data, not by the id of an uploaded file.",
});
