import type {
  CacheMarker,
  FilePart,
  ImagePart,
  InputAudioPart,
  MediaSource,
  Part,
  TextPart,
} from "../../operations/conversation/conversation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { FieldReader } from "../field-reader.ts";
import { mediaSource } from "../media-source.ts";
import { unsupported } from "./unsupported.ts";

/** What a message of anybody but the model may hold. */
export type ContentPart = TextPart | ImagePart | FilePart | InputAudioPart;

/** The content of a message: a string, which stands for one text, or parts. */
export function contentParts(message: JsonObject, path: string, fields: FieldReader): readonly ContentPart[] {
  const parts: ContentPart[] = [];
  for (const { part, type, place } of rawParts(message["content"], `${path}.content`, fields)) {
    const read = contentPart(part, type, place, fields);
    if (read === null) fields.fail(unreadable(place));
    else parts.push(read);
  }
  return marked(parts, cacheMarker(message));
}

/** What the model said before. Its thoughts are among the parts only where a provider puts them there. */
export function spokenParts(message: JsonObject, path: string, fields: FieldReader): readonly Part[] {
  const parts: Part[] = [];
  for (const { part, type, place } of rawParts(message["content"], `${path}.content`, fields)) {
    if (type === "refusal") parts.push({ kind: "refusal", text: fields.text(part["refusal"], `${place}.refusal`) });
    else if (type === "thinking") {
      const text = thinkingText(part["thinking"]);
      if (text !== "") parts.push({ kind: "reasoning", text, signature: null });
    } else {
      const read = contentPart(part, type, place, fields);
      if (read === null) fields.fail(unreadable(place));
      else parts.push(read);
    }
  }
  const cache = cacheMarker(message);
  const last = parts.at(-1);
  return cache !== null && last?.kind === "text" ? [...parts.slice(0, -1), { ...last, cache }] : parts;
}

interface RawPart {
  readonly part: JsonObject;
  readonly type: string;
  readonly place: string;
}

function rawParts(content: unknown, path: string, fields: FieldReader): readonly RawPart[] {
  if (content == null) return [];
  if (typeof content === "string") return [{ part: { text: content }, type: "text", place: path }];
  const parts: RawPart[] = [];
  for (const [index, value] of fields.list(content, path).entries()) {
    const place = `${path}.${index}`;
    const part = fields.object(value, place);
    const type = fields.text(part["type"], `${place}.type`);
    if (fields.mistake !== null) return [];
    parts.push({ part, type, place });
  }
  return parts;
}

/** Null where it is of a type that other APIs do not have, such as a video. */
function contentPart(part: JsonObject, type: string, path: string, fields: FieldReader): ContentPart | null {
  const cache = cacheMarker(part);
  const marker = cache === null ? undefined : { cache };
  switch (type) {
    case "text":
      return { kind: "text", text: fields.text(part["text"], `${path}.text`), ...marker };
    case "image_url":
      return { ...imagePart(part["image_url"], `${path}.image_url`, fields), ...marker };
    case "input_audio": {
      const audio = fields.object(part["input_audio"], `${path}.input_audio`);
      const data = fields.name(audio["data"], `${path}.input_audio.data`);
      return { kind: "audio", format: fields.name(audio["format"], `${path}.input_audio.format`), data };
    }
    case "file":
      return { ...filePart(fields.object(part["file"], `${path}.file`), `${path}.file`, fields), ...marker };
    default:
      return null;
  }
}

function unreadable(path: string): ReturnType<typeof unsupported> {
  return unsupported(path, `'${path}' is of a type that this model cannot read.`);
}

/** Some clients send the URL itself. */
function imagePart(value: unknown, path: string, fields: FieldReader): ImagePart {
  if (typeof value === "string") return { kind: "image", source: mediaSource(fields.name(value, path)) };
  const image = fields.object(value, path);
  const detail = fields.optionalText(image["detail"], `${path}.detail`);
  const source = mediaSource(fields.name(image["url"], `${path}.url`));
  return { kind: "image", source, ...(detail === null ? undefined : { detail }) };
}

function filePart(file: JsonObject, path: string, fields: FieldReader): FilePart {
  const name = fields.optionalText(file["filename"], `${path}.filename`);
  const id = fields.optionalText(file["file_id"], `${path}.file_id`);
  if (id !== null) return { kind: "file", source: { kind: "id", id }, name };
  return { kind: "file", source: fileSource(fields.name(file["file_data"], `${path}.file_data`), name), name };
}

/** The API says that it is base64, and in practice it is a data URL; some providers take the URL of the file as well. */
function fileSource(data: string, name: string | null): MediaSource {
  if (/^(?:data|https?):/.test(data)) return mediaSource(data);
  const ending = name?.slice(name.lastIndexOf(".") + 1).toLowerCase() ?? "";
  return { kind: "data", mediaType: fileTypes.get(ending) ?? "application/octet-stream", data };
}

const fileTypes: ReadonlyMap<string, string> = new Map([
  ["pdf", "application/pdf"],
  ["txt", "text/plain"],
  ["md", "text/markdown"],
  ["csv", "text/csv"],
  ["html", "text/html"],
  ["json", "application/json"],
]);

/** A provider's own form of thoughts: parts of text within a part. */
function thinkingText(value: unknown): string {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return "";
  return (value as readonly unknown[]).map((part) => (isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : "")).join("");
}

/** Two ways to mark the end of a prefix that is worth caching. A lifetime that is not known is the usual one. */
export function cacheMarker(value: JsonObject): CacheMarker | null {
  const control = value["cache_control"];
  if (isJsonObject(control)) return { ttl: control["ttl"] === "1h" || control["ttl"] === "5m" ? control["ttl"] : null };
  return isJsonObject(value["prompt_cache_breakpoint"]) ? { ttl: null } : null;
}

/** A marker of the whole message stands at its last part that can have one. */
function marked(parts: readonly ContentPart[], cache: CacheMarker | null): readonly ContentPart[] {
  const last = parts.at(-1);
  if (cache === null || last === undefined || last.kind === "audio") return parts;
  return [...parts.slice(0, -1), { ...last, cache }];
}
