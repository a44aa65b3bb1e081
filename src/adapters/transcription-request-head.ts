import type { TranscriptionAsk } from "../operations/transcription.ts";
import type { Target } from "./adapter.ts";

/** Where a transcription goes, with further parameters of the address where the dialect has any. */
export function transcriptionUrl(task: TranscriptionAsk["task"], { channel, model }: Target, parameters?: URLSearchParams): string {
  const { baseUrl, transcriptionPath, translationPath, query } = channel.address;
  const path = (task === "translate" ? translationPath : transcriptionPath).replace("{model}", encodeURIComponent(model));
  const added = parameters?.toString() ?? "";
  const separator = query === "" ? "?" : "&";
  return baseUrl + path + query + (added === "" ? "" : separator + added);
}

/** The headers of a request whose content type nobody else may set: a form cannot be read without its own. */
export function transcriptionHeaders(accept: string, type: string, { forwarded, channel }: Target): Readonly<Record<string, string>> {
  return { accept, ...forwarded, ...channel.headers, "content-type": type };
}
