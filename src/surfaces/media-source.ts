import type { MediaSource } from "../operations/conversation/conversation.ts";

/** A data URL holds its content; any other is one to fetch. */
export function mediaSource(url: string): MediaSource {
  const comma = /^data:/i.test(url) ? url.indexOf(",") : -1;
  const head = comma === -1 ? "" : url.slice("data:".length, comma);
  if (!/;base64$/i.test(head)) return { kind: "url", url };
  return { kind: "data", mediaType: mediaTypeOf(head.slice(0, -";base64".length)), data: url.slice(comma + 1) };
}

/**
 * Of an image, the name alone, as upstreams that compare it expect it. `image/jpg` is no registered type, but the OpenAI API takes it, and
 * clients make it of the ending of a file.
 */
function mediaTypeOf(text: string): string {
  if (!/^image\//i.test(text)) return text || "application/octet-stream";
  const name = text.split(";", 1)[0]!.trim().toLowerCase();
  return name === "image/jpg" ? "image/jpeg" : name;
}
