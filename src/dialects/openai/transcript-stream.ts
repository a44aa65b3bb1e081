import { meteredLength, transcriptTokenUsage, transcriptionUsage } from "../../operations/transcription/transcription-usage.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { deltaFrame, doneFrame, endFrame } from "../../operations/transcription/transcript-events.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { Emissions, EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { fields, list, string } from "../transcripts/transcript-fields.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { parseUntrusted } from "../untrusted.ts";

/**
 * Reads the events of a streamed transcription. Those of the OpenAI API pass unchanged; two other formats of compatible servers (chunks
 * like those of a chat, and events of another name) are converted. A stream is complete after `transcript.text.done`, or after an end
 * mark that follows text.
 */
export class OpenAiTranscriptStream implements EventDecoder {
  private hasOutput = false;
  private done = false;
  private ended = false;
  /** A chunk like that of a chat had a finish_reason. It does not prove the end, but makes an empty transcript valid. */
  private stopped = false;
  private streamedText = "";
  private segmentText = "";
  private usage: MeteredUsage | null = null;

  /** The length of the upload is metered if the stream does not report it. */
  constructor(private readonly seconds: number | null = null) {}

  get finished(): boolean {
    return this.done;
  }

  read(event: SseEvent): Emissions {
    if (this.ended) return none;
    if (event.data.startsWith("[DONE]")) return this.end();
    const data = parseUntrusted(event.data, event.frame, "data: ".length, -2);
    if (!isJsonObject(data)) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    const isError = (data["error"] !== undefined && data["error"] !== null) || event.name === "error" || data["type"] === "error";
    if (isError) return this.broken(explainInBand(data["error"] ?? data));
    if (this.done) return none;
    const emissions = this.emissionsOf(data, event.frame);
    return this.streamedText.length + this.segmentText.length > textLengthMax
      ? this.broken(failure("bad_response", "the stream is longer than any transcript"))
      : emissions;
  }

  close(): Emissions {
    if (this.ended) return none;
    if (this.done) return this.end();
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without its last event");
  }

  private emissionsOf(data: JsonObject, frame: Uint8Array): readonly Emission[] {
    switch (data["type"]) {
      case "transcript.text.delta":
        return this.text(string(data["delta"]), frame);
      case "transcript.text.segment":
        return this.segment(string(data["text"]), frame);
      case "transcript.text.done":
        return this.finish(frame, transcriptionUsage(data["usage"], null));
      case "transcription.text.delta":
        return this.text(string(data["text"]), deltaFrame(string(data["text"])));
      case "transcription.done":
        this.usage = transcriptionUsage(data["usage"], null);
        return this.finish(this.doneFrame(string(data["text"])), this.usage);
      case "transcription.language":
      case "transcription.segment":
        return none;
      default:
        return Array.isArray(data["choices"]) ? this.chunk(data) : [{ kind: "delta", frame, output: null, text: "", finishes: false }];
    }
  }

  /** Only an end mark ends such a stream: a long recording is split, and every part has a last chunk. */
  private chunk(data: JsonObject): readonly Emission[] {
    this.usage = transcriptionUsage(data["usage"], null) ?? this.usage;
    const [choice] = list(data["choices"]);
    this.stopped ||= typeof choice?.["finish_reason"] === "string";
    const text = string(fields(choice?.["delta"])["content"]);
    return text === "" ? none : this.text(text, deltaFrame(text));
  }

  private text(text: string, frame: Uint8Array): readonly Emission[] {
    if (text !== "") this.hasOutput = true;
    this.streamedText += text;
    return [{ kind: "delta", frame, output: text === "" ? null : "text", text, finishes: false }];
  }

  private segment(text: string, frame: Uint8Array): readonly Emission[] {
    if (text !== "") this.hasOutput = true;
    this.segmentText += text;
    return [{ kind: "delta", frame, output: text === "" ? null : "text", text: "", finishes: false }];
  }

  private finish(frame: Uint8Array, usage: MeteredUsage | null): readonly Emission[] {
    this.hasOutput = true;
    this.done = true;
    const last: Emission = { kind: "delta", frame, output: "finish", text: "", finishes: true };
    const metered = meteredLength(usage, this.seconds);
    return metered === null ? [last] : [last, { kind: "usage", frame: null, usage: metered }];
  }

  private doneFrame(text: string): Uint8Array {
    return doneFrame(text, this.usage === null ? null : transcriptTokenUsage(this.usage));
  }

  /** An end mark completes a stream that had output. */
  private end(): Emissions {
    if (!this.hasOutput && !this.stopped) return failure("bad_response", "the stream ended before its first output");
    const text = this.streamedText === "" ? this.segmentText.trim() : this.streamedText;
    const last = this.done ? none : this.finish(this.doneFrame(text), this.usage);
    this.ended = true;
    return [...last, { kind: "end", frame: endFrame, finish: null }];
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

const none: readonly Emission[] = [];

/** A hundred times the text of a day of speech. */
const textLengthMax = 64 * 1024 * 1024;
