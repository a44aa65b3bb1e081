import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Target } from "../dialect.ts";

/** Where a transcription goes, with further parameters of the address where the dialect has any. */
export function transcriptionUrl(task: TranscriptionRequest["task"], { channel, model }: Target, parameters?: URLSearchParams): string {
  const { baseUrl, transcriptionPath, translationPath, query } = channel.address;
  const path = (task === "translate" ? translationPath : transcriptionPath).replace("{model}", encodeURIComponent(model));
  const added = parameters?.toString() ?? "";
  const separator = query === "" ? "?" : "&";
  return baseUrl + path + query + (added === "" ? "" : separator + added);
}

/**
 * How long the sound may last that an engine of this machine decodes: what its channel takes, and twice what the file says of
 * itself, for which room was taken of the key's limits. Null where neither says, and for all other channels.
 */
export function soundBound({ seconds }: TranscriptionRequest, { channel }: Target): Readonly<Record<string, string>> | null {
  if (!channel.address.baseUrl.startsWith("engine:")) return null;
  const most = Math.min((channel.capabilities.audioSecondsMax ?? Infinity) * slack, seconds === null ? Infinity : seconds * 2 + 60);
  return Number.isFinite(most) ? { [soundBoundHeader]: String(Math.ceil(most)) } : null;
}

const soundBoundHeader = "x-audio-seconds-max";
/** Encoders add some silence, and heads are rounded. */
const slack = 1.05;

/** The headers of a request. Configured headers cannot replace its content type: a form cannot be read without its own. */
export function transcriptionHeaders(accept: string, type: string, { forwarded, channel }: Target): Readonly<Record<string, string>> {
  return { accept, ...forwarded, ...channel.headers, "content-type": type };
}
