import { voicesOf, type Address } from "../../channels/channel.ts";
import { audioTypes, type AudioFormat } from "../../media/audio.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { valueOf } from "../../operations/json.ts";
import { field } from "../../operations/request-fields.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import { setEvery, splice, type Splice } from "../../operations/splice.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { audioReader } from "../readers/audio-reader.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { formatFor } from "../speech/speech-format.ts";
import { parseUntrusted } from "../untrusted.ts";
import { voiceFor } from "../../channels/voice.ts";

/** Speech in the dialect of the OpenAI API: the client's bytes are sent with the model, the voice and the format replaced. */
export const openaiSpeech: Codec<SpeechRequest> = { encode, explain };

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const { channel } = target;
  const chosen = voiceFor(voicesOf(channel, target.model), ask.voice);
  if (isFailure(chosen)) return chosen;
  const asked = formatFor(channel.capabilities.speechFormats, ask.format);
  const sendsEvents = channel.capabilities.speechEvents?.some((prefix) => target.model.startsWith(prefix)) ?? true;
  const conversion = { asked, wanted: ask.format, events: ask.events, characters: ask.characters };
  return {
    request: {
      method: "POST",
      url: speechUrl(channel.address, target.model),
      headers: headersOf(ask.events, asked, target),
      body: splice(ask.body, [
        ...modelSplices(ask, target.model),
        ...(chosen.voice === null ? [] : setEvery(ask, "voice", chosen.voice)),
        ...(asked === ask.format ? [] : setEvery(ask, "response_format", asked)),
        // A part of a long text may have the client's field without its events.
        ...(sendsEvents || !asksForEvents(ask) ? [] : setEvery(ask, "stream_format", "audio")),
      ]),
    },
    answer: { kind: "stream", reader: (head, tools) => audioReader(conversion, head, tools), instead: readInstead },
    clampedTo: null,
    voice: chosen.reported,
  };
}

function asksForEvents({ body, members }: SpeechRequest): boolean {
  const format = field(members, "stream_format");
  return format !== undefined && valueOf(body, format) === "sse";
}

function headersOf(events: boolean, asked: AudioFormat, { forwarded, channel }: Target): Record<string, string> {
  const accept = `${events ? "text/event-stream, " : ""}${audioTypes[asked]}, */*;q=0.1`;
  return { "content-type": "application/json", accept, ...forwarded, ...channel.headers };
}

function speechUrl({ baseUrl, speechPath, query }: Address, model: string): string {
  return baseUrl + speechPath.replace("{model}", encodeURIComponent(model)) + query;
}

/** Every duplicate is renamed: an upstream that reads the first one must not see a model that the key may not use. */
function modelSplices(ask: SpeechRequest, model: string): readonly Splice[] {
  const isRepeated = ask.members.filter(({ key }) => key === "model").length > 1;
  return model === ask.model && !isRepeated ? [] : setEvery(ask, "model", model);
}

/** JSON is never audio: it is an error, or an unusable answer. */
function readInstead(body: Uint8Array): Failure {
  const answer = parseUntrusted(decoder.decode(body), body) as { readonly error?: unknown } | null | undefined;
  const error = typeof answer === "object" ? answer?.error : undefined;
  return error === undefined || error === null ? failure("bad_response", "the answer is JSON and not audio") : explainInBand(error);
}

const decoder = new TextDecoder();
