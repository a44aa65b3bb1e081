import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Target } from "../dialect.ts";

/** The URL of a transcription, with further query parameters if the dialect has any. */
export function transcriptionUrl(task: TranscriptionRequest["task"], { channel, model }: Target, parameters?: URLSearchParams): string {
  const { baseUrl, transcriptionPath, translationPath, query } = channel.address;
  const path = (task === "translate" ? translationPath : transcriptionPath).replace("{model}", encodeURIComponent(model));
  const added = parameters?.toString() ?? "";
  const separator = query === "" ? "?" : "&";
  return baseUrl + path + query + (added === "" ? "" : separator + added);
}

/**
 * The most seconds of audio that a local engine decodes: the limit of its channel, and twice the length that the file declares, which
 * was reserved of the key's limits. Null if neither is known, and for all other channels.
 */
export function audioSecondsLimit({ seconds }: TranscriptionRequest, { channel }: Target): Readonly<Record<string, string>> | null {
  if (!channel.address.baseUrl.startsWith("engine:")) return null;
  const most = Math.min((channel.capabilities.audioSecondsMax ?? Infinity) * slack, seconds === null ? Infinity : seconds * 2 + 60);
  return Number.isFinite(most) ? { [audioSecondsHeader]: String(Math.ceil(most)) } : null;
}

const audioSecondsHeader = "x-audio-seconds-max";
/** Encoders add some silence, and declared lengths are rounded. */
const slack = 1.05;

/** The headers of a request. Configured headers cannot replace the content type, which contains the boundary of the form. */
export function transcriptionHeaders(accept: string, type: string, { forwarded, channel }: Target): Readonly<Record<string, string>> {
  return { accept, ...forwarded, ...channel.headers, "content-type": type };
}
