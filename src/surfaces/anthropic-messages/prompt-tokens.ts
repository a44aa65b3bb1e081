import { elementsOf, lastMember, membersOf, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { present } from "../../operations/mistakes.ts";

/**
 * Roughly how many tokens the prompt of a request has. Clients see it: it is the first count of a stream, and the answer to a request to
 * count, after which some shorten their conversation. So the bytes of images and files, which say little about tokens, are not counted as text.
 */
export function promptTokens(body: Uint8Array, members: readonly JsonMember[]): number {
  let bytes = 0;
  let tokens = 0;
  for (const key of promptFields) {
    const member = present(lastMember(members, key));
    if (member === undefined) continue;
    bytes += member.end - member.start;
    if (key !== "messages") continue;
    const media = mediaIn(body, member, levelsMax);
    bytes -= media.bytes;
    tokens += media.tokens;
  }
  return Math.ceil(bytes / bytesPerToken) + tokens;
}

const promptFields = ["system", "tools", "messages"] as const;
const bytesPerToken = 4;

interface Media {
  readonly bytes: number;
  readonly tokens: number;
}

const none: Media = { bytes: 0, tokens: 0 };

/** Messages have content, and the results of tools inside of it have content again. */
const levelsMax = 3;

/** Only what is large is looked into, so that this costs little more than the media themselves. */
function mediaIn(body: Uint8Array, list: JsonSpan, levels: number): Media {
  if (levels === 0 || list.kind !== "array" || isSmall(list)) return none;
  let bytes = 0;
  let tokens = 0;
  for (const element of elementsOf(body, list.start, list.end)) {
    if (element.kind !== "object" || isSmall(element)) continue;
    const members = membersOf(body, element.start, element.end);
    const source = lastMember(members, "source");
    const content = lastMember(members, "content");
    const found = source?.kind === "object" ? mediumOf(body, source) : content === undefined ? none : mediaIn(body, content, levels - 1);
    bytes += found.bytes;
    tokens += found.tokens;
  }
  return { bytes, tokens };
}

function isSmall({ start, end }: JsonSpan): boolean {
  return end - start < mediumBytesMin;
}

const mediumBytesMin = 4096;

function mediumOf(body: Uint8Array, source: JsonMember): Media {
  const members = membersOf(body, source.start, source.end);
  const type = lastMember(members, "type");
  const data = lastMember(members, "data");
  const isBase64 = type?.kind === "string" && valueOf(body, type) === "base64";
  if (!isBase64 || data === undefined) return none;
  const mediaType = lastMember(members, "media_type");
  const bytes = data.end - data.start;
  const isImage = mediaType?.kind === "string" && (valueOf(body, mediaType) as string).startsWith("image/");
  return { bytes, tokens: isImage ? imageTokens : Math.ceil(bytes / fileBytesPerToken) };
}

/** What a large image costs at most; larger ones are scaled down to that. */
const imageTokens = 1600;
/** A page of a PDF has some 2,000 tokens, and some 60 KiB. */
const fileBytesPerToken = 32;
