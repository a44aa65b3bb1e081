import type {
  CacheMarker,
  FilePart,
  ImagePart,
  InputAudioPart,
  MediaSource,
  Part,
  ProviderValue,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { wrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { scanJson } from "../../operations/json.ts";
import { depthLimits } from "../untrusted.ts";

/** Whose signatures and citations this API takes back. It is the same on every host. */
export const ownValues = "anthropic";

/** A block of content as JSON, without its cache marker: only some of those can be kept. */
export interface EncodedBlock {
  readonly json: string;
  readonly cache: CacheMarker | undefined;
}

/** How blocks are written for one upstream. */
export interface BlockOptions {
  /** It fetches images and documents by their URL. */
  readonly fetches: boolean;
}

/** The block of a turn of the user; none where it has nothing to say, because the API refuses blank texts. */
export function userBlocks(part: Part, options: BlockOptions): readonly EncodedBlock[] | Failure {
  switch (part.kind) {
    case "text":
    case "image":
    case "file":
    case "audio":
      return mediaBlocks(part, options);
    case "refusal":
      return textBlocks(part.text);
    case "tool_result":
    case "tool_call":
    case "reasoning":
      return none;
  }
}

/** The blocks of an answer. What the model cannot have written is reported. */
export function answerBlocks(part: Part, ids: CallIds, dropped: Set<string>): readonly EncodedBlock[] {
  switch (part.kind) {
    case "text":
      return textBlocks(part.text, part.cache, citationsJson(part.citations));
    case "refusal":
      return textBlocks(part.text);
    case "reasoning":
      return thinkingBlocks(part);
    case "tool_call":
      return [toolUseBlock(part, ids.begin(part.id))];
    default:
      dropped.add(`assistant ${part.kind}`);
      return none;
  }
}

export function resultBlock(part: ToolResultPart, ids: CallIds, options: BlockOptions): EncodedBlock | Failure {
  const content: string[] = [];
  for (const one of part.content) {
    const blocks = mediaBlocks(one, options);
    if (isFailure(blocks)) return blocks;
    content.push(...blocks.map(({ json }) => json));
  }
  const id = JSON.stringify(ids.answer(part.callId));
  const said = content.length === 0 ? "" : `,"content":[${content.join(",")}]`;
  const error = part.isError ? `,"is_error":true` : "";
  return { json: `{"type":"tool_result","tool_use_id":${id}${said}${error}}`, cache: part.cache };
}

export function textBlocks(text: string, cache?: CacheMarker, citations: string | null = null): readonly EncodedBlock[] {
  if (text.trim() === "") return none;
  const cited = citations === null ? "" : `,"citations":${citations}`;
  return [{ json: `{"type":"text","text":${JSON.stringify(text)}${cited}}`, cache }];
}

/** The JSON of a block with its marker. */
export function markedJson({ json, cache }: EncodedBlock): string {
  return cache === undefined ? json : `${json.slice(0, -1)},"cache_control":${markerJson(cache)}}`;
}

export function markerJson({ ttl }: CacheMarker): string {
  return JSON.stringify({ type: "ephemeral", ...(ttl === null ? undefined : { ttl }) });
}

/**
 * The ids of calls as this API accepts them: letters, digits, `_` and `-`. Some clients leave them empty: then calls are numbered, and
 * results belong to them in their order.
 */
export class CallIds {
  private nameless = 0;
  private readonly unanswered: string[] = [];

  begin(id: string): string {
    if (id !== "") return wireName({ name: id });
    const made = `call_${++this.nameless}`;
    this.unanswered.push(made);
    return made;
  }

  answer(id: string): string {
    return id === "" ? (this.unanswered.shift() ?? "call_0") : wireName({ name: id });
  }
}

function mediaBlocks(part: TextPart | ImagePart | FilePart | InputAudioPart, options: BlockOptions): readonly EncodedBlock[] | Failure {
  switch (part.kind) {
    case "text":
      return textBlocks(part.text, part.cache);
    case "image": {
      const source = imageSource(part.source, options);
      return typeof source === "string" ? [{ json: `{"type":"image","source":${source}}`, cache: part.cache }] : source;
    }
    case "file": {
      const source = documentSource(part.source, options);
      if (typeof source !== "string") return source;
      const title = part.name === null ? "" : `,"title":${JSON.stringify(part.name.slice(0, titleMax))}`;
      return source === "" ? none : [{ json: `{"type":"document","source":${source}${title}}`, cache: part.cache }];
    }
    case "audio":
      return noAudio;
  }
}

function imageSource(source: MediaSource, { fetches }: BlockOptions): string | Failure {
  switch (source.kind) {
    case "data":
      return images.has(source.mediaType) ? base64Source(source.mediaType, source.data) : noImageType;
    case "url":
      return fetches && isWebUrl(source.url) ? urlSource(source.url) : noUrl;
    case "id":
    case "text":
      return noFileId;
  }
}

/** Empty for a document without text, which the API refuses. */
function documentSource(source: MediaSource, { fetches }: BlockOptions): string | Failure {
  switch (source.kind) {
    case "data":
      if (source.mediaType === "application/pdf") return base64Source(source.mediaType, source.data);
      return isText(source.mediaType) ? decodedSource(source.data) : noFileType;
    case "url":
      return fetches && isWebUrl(source.url) ? urlSource(source.url) : noUrl;
    case "text":
      return textSource(source.text);
    case "id":
      return noFileId;
  }
}

function decodedSource(data: string): string | Failure {
  try {
    return textSource(decoder.decode(Uint8Array.fromBase64(data)));
  } catch {
    return noBase64;
  }
}

function base64Source(mediaType: string, data: string): string {
  return `{"type":"base64","media_type":${JSON.stringify(mediaType)},"data":${JSON.stringify(data)}}`;
}

function urlSource(url: string): string {
  return `{"type":"url","url":${JSON.stringify(url)}}`;
}

function textSource(text: string): string {
  return text.trim() === "" ? "" : `{"type":"text","media_type":"text/plain","data":${JSON.stringify(text)}}`;
}

/** A thought goes back only to the API that signed it, and unchanged. */
function thinkingBlocks({ text, signature, redacted }: ReasoningPart): readonly EncodedBlock[] {
  if (signature?.dialect !== ownValues || signature.data === "") return none;
  const json =
    redacted === true
      ? JSON.stringify({ type: "redacted_thinking", data: signature.data })
      : JSON.stringify({ type: "thinking", thinking: text, signature: signature.data });
  return [{ json, cache: undefined }];
}

function toolUseBlock(part: ToolCallPart, id: string): EncodedBlock {
  const head = JSON.stringify({ type: "tool_use", id, name: wireName(part) });
  const input = part.custom === true ? wrapCustomInput(part.arguments) : inputJson(part.arguments);
  return { json: `${head.slice(0, -1)},"input":${input}}`, cache: part.cache };
}

/** An input is an object here. What is none is kept as a text in one. */
function inputJson(args: string): string {
  const json = args.trim();
  if (json === "" || json === "null") return "{}";
  // Scanned and kept as it was written: parsed and printed, it would lose the digits of large numbers.
  const scanned = scanJson(encoder.encode(json), depthLimits);
  return scanned.ok && scanned.kind === "object" ? json : JSON.stringify({ _raw: args });
}

function citationsJson(value: ProviderValue | undefined): string | null {
  if (value?.dialect !== ownValues) return null;
  try {
    const parsed: unknown = JSON.parse(value.data);
    return JSON.stringify(Array.isArray(parsed) ? parsed : [parsed]);
  } catch {
    return null;
  }
}

function isWebUrl(url: string): boolean {
  return /^https?:\/\//i.test(url);
}

function isText(mediaType: string): boolean {
  return /^text\/|^application\/(?:json|xml|x-yaml|yaml|javascript)\b/.test(mediaType);
}

const images: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const titleMax = 500;
const none: readonly EncodedBlock[] = [];
const decoder = new TextDecoder();
const encoder = new TextEncoder();

const noAudio = unreadable("the upstream takes no audio", "This model takes no audio.");
const noImageType = unreadable("the upstream does not take this type of image", "This model takes images as JPEG, PNG, GIF or WebP.");
const noFileType = unreadable("the upstream does not take this type of file", "This model takes files as PDF or text.");
const noBase64 = unreadable("a file is not base64", "A file of this request is not valid base64.");
const noFileId = unreadable("the upstream does not have the uploaded file", "This model takes images and files as data, not by file id.");
const noUrl = unreadable("the upstream fetches no URLs", "This model takes images and files as base64 data, not by URL.");

/** Content that this upstream cannot read. Another channel may be able to. */
function unreadable(detail: string, message: string): Failure {
  return failure("unsupported", detail, { message });
}
