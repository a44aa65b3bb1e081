import { transcriptionFormatsOf } from "../../channels/channel.ts";
import type { Failure } from "../../operations/failure.ts";
import { listIn, listNameOf, listNames } from "../../operations/transcription/form-lists.ts";
import type { FormField } from "../../media/stored-file.ts";
import { languageUnknown, spokenLanguage, type TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import { needsTimes, type TranscriptFormat } from "../../operations/transcription/transcript.ts";
import type { Codec, EncodedRequest, ExpectedAnswer, Target } from "../dialect.ts";
import { EventReader } from "../readers/event-reader.ts";
import { explain } from "../errors/explain.ts";
import { multipartBody } from "../transcripts/multipart-body.ts";
import { OpenAiTranscriptStream } from "./transcript-stream.ts";
import { readTranscription } from "./transcription-answer.ts";
import { formatUnsupported } from "../transcripts/rendered-transcript.ts";
import { audioSecondsLimit, transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";

/**
 * Transcriptions in the dialect of the OpenAI API. The client's form is sent with a few values changed. The answer keeps its bytes,
 * unless another format than the client's had to be requested.
 */
export const openaiTranscription: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  // Another dialect may support this language.
  if (ask.language === null && spokenLanguage(ask.fields) !== null) return { ...languageUnknown(), kind: "unsupported" };
  const streams = ask.stream && target.channel.capabilities.transcriptionStream;
  const format = askedFormat(ask, target, streams);
  if (format === null) return formatUnsupported(ask.format);
  const { body, type } = multipartBody(fieldsFor(ask, target, format, streams), ask.file);
  return {
    request: {
      method: "POST",
      url: transcriptionUrl(ask.task, target),
      headers: {
        ...transcriptionHeaders(streams ? "text/event-stream" : "application/json, text/plain", type, target),
        ...audioSecondsLimit(ask, target),
      },
      body,
    },
    answer: streams ? streamOf(ask, format) : { kind: "whole", read: (answer, head) => readTranscription(answer, head, ask, format) },
    clampedTo: null,
    voice: null,
    subtitles: isSubtitles(format),
  };
}

function streamOf(ask: TranscriptionRequest, format: TranscriptFormat): ExpectedAnswer {
  return {
    kind: "stream",
    reader: () => new EventReader(new OpenAiTranscriptStream(ask.seconds)),
    instead: (body, head) => readTranscription(body, head, ask, format),
  };
}

/** The format to request: the client's own, or else the richest one of the upstream that contains everything. */
function askedFormat(ask: TranscriptionRequest, { channel, model, subtitles }: Target, streams: boolean): TranscriptFormat | null {
  const has = transcriptionFormatsOf(channel, model);
  const mayHave = (format: TranscriptFormat): boolean => has === null || has.includes(format);
  return sourcesOf(ask, streams).find((format) => mayHave(format) && (subtitles !== false || !isSubtitles(format))) ?? null;
}

function isSubtitles(format: TranscriptFormat): boolean {
  return format === "srt" || format === "vtt";
}

function sourcesOf({ format, wantsWords }: TranscriptionRequest, streams: boolean): readonly TranscriptFormat[] {
  switch (format) {
    case "json":
    case "text":
      // The events are the same for both, and an upstream that does not stream answers with JSON, which can be recognised.
      return streams ? ["json", "text"] : [format, "verbose_json", "json", "text", "diarized_json"];
    case "srt":
    case "vtt":
      return [format, "verbose_json", "diarized_json"];
    case "verbose_json":
      return wantsWords ? [format] : [format, "diarized_json"];
    case "diarized_json":
      return [format];
  }
}

/** Every duplicate is renamed: an upstream that reads the first one must not see a model that the key may not use. */
function fieldsFor(
  ask: TranscriptionRequest,
  { channel, model }: Target,
  format: TranscriptFormat,
  streams: boolean,
): readonly FormField[] {
  const written = inOneSpelling([...ask.fields, ...timesFor(ask, channel, format)], channel.quirks.plainLists === true ? "" : "[]");
  const fields = written.flatMap(({ name, value }): readonly FormField[] => {
    switch (name) {
      case "file":
        return [];
      case "model":
        return [{ name, value: model }];
      case "response_format":
        return [{ name, value: format }];
      case "stream":
        return streamField(value.trim().toLowerCase(), streams);
      case "language":
        // Names and regions are converted to codes here, and an empty value is left out.
        return ask.language === null ? [] : [{ name, value: ask.language }];
      default:
        return [{ name, value }];
    }
  });
  const isSaid = format === "json" || fields.some(({ name }) => name === "response_format");
  return isSaid ? fields : [...fields, { name: "response_format", value: format }];
}

/** In lower case: Python clients write `True`, and not every upstream reads that. */
function streamField(value: string, streams: boolean): readonly FormField[] {
  return streams || value === "false" ? [{ name: "stream", value }] : [];
}

/** The granularity that the OpenAI API takes for granted. */
function timesFor({ fields }: TranscriptionRequest, { quirks }: Target["channel"], format: TranscriptFormat): readonly FormField[] {
  const isSaid = listIn(fields, "timestamp_granularities").length > 0;
  return quirks.timesOnRequest === true && needsTimes(format) && !isSaid ? [{ name: "timestamp_granularities", value: "segment" }] : [];
}

/** Writes lists as `name[]` for each value, unless the upstream is known to take the plain name: many servers silently ignore any other form. */
function inOneSpelling(fields: readonly FormField[], suffix: "" | "[]"): readonly FormField[] {
  const written = new Set<string>();
  return fields.flatMap((field) => {
    const list = listNameOf(field.name);
    if (!listNames.has(list)) return [field];
    if (written.has(list)) return [];
    written.add(list);
    return listIn(fields, list).map((value) => ({ name: list + suffix, value }));
  });
}
