import type { MediaSource } from "../operations/conversation/conversation.ts";

/** A data URL holds its content; any other is one to fetch. */
export function mediaSource(url: string): MediaSource {
  const comma = url.startsWith("data:") ? url.indexOf(",") : -1;
  const head = comma === -1 ? "" : url.slice(5, comma);
  if (!head.endsWith(";base64")) return { kind: "url", url };
  return { kind: "data", mediaType: head.slice(0, -";base64".length) || "application/octet-stream", data: url.slice(comma + 1) };
}
