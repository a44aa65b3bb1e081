import type { PreviewedSending, PreviewRequest } from "../admin/services.ts";
import type { Candidate } from "../channels/channel.ts";
import { encodedFor } from "../gateway/attempt/encoded-request.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { shownAs } from "../http/errors.ts";
import type { CallRequest } from "../operations/call-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { readPassthroughRequest } from "../operations/passthrough/passthrough-request.ts";
import { readSpeechRequest } from "../operations/speech/speech-request.ts";
import { chatSurface, messagesSurface, responsesSurface } from "../surfaces/index.ts";

/** A request as the endpoint of its API reads it. */
export function previewedRequest(api: PreviewRequest["api"], body: Uint8Array): CallRequest | Failure {
  switch (api) {
    case "chat":
      return chatSurface.parse(body);
    case "responses":
      return responsesSurface.parse(body);
    case "messages":
      return messagesSurface.parse(body);
    case "speech":
      return readSpeechRequest(body, { charactersMax: body.length });
    case "embedding":
      return readPassthroughRequest(api, body);
  }
}

/** What a candidate would be sent. It is encoded as for a real call; credentials are only added when a call is made. */
export function previewedSending(gateway: Gateway, ask: CallRequest, candidate: Candidate, keyId: string): PreviewedSending {
  const { channel, model } = candidate.deployment;
  const encoded = encodedFor(gateway, ask, candidate, { lesson: gateway.upstreams.lessonOf(candidate), forwarded: {}, keyId });
  const place = { channel: channel.name, model };
  if (isFailure(encoded)) return { ...place, ...nothingSent, refusal: shownAs(encoded).message };
  const { request, translated = false, dropped = [], clampedTo } = encoded;
  return {
    ...place,
    refusal: null,
    method: request.method,
    url: maskedUrl(request.url),
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, plainHeaders.has(name.toLowerCase()) ? value : masked]),
    ),
    body: request.body instanceof Uint8Array ? textOf(request.body) : null,
    translated,
    dropped,
    clampedTo,
  };
}

const nothingSent = { method: "POST", url: "", headers: {}, body: null, translated: false, dropped: [], clampedTo: null } as const;

/** A channel may have headers of its own, and addresses with parameters, which are as secret as its keys. */
const masked = "•••";
const plainHeaders: ReadonlySet<string> = new Set(["content-type", "accept"]);

function maskedUrl(text: string): string {
  const { origin, pathname, searchParams } = new URL(text);
  const query = [...searchParams.keys()].map((name) => `${name}=${masked}`).join("&");
  return `${origin}${pathname}${query === "" ? "" : `?${query}`}`;
}

/** An image of megabytes is of no use in a preview. */
const bodyCharactersMax = 100_000;

function textOf(body: Uint8Array): string {
  const text = new TextDecoder().decode(body.subarray(0, 4 * bodyCharactersMax));
  return text.length <= bodyCharactersMax ? text : `${text.slice(0, bodyCharactersMax)}…`;
}
