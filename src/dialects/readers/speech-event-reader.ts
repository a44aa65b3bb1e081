import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { audioOf, speechDelta, speechDeltaFrame, speechDone } from "../../operations/speech/speech-events.ts";
import { tokenUsage, type TokenUsage } from "../../operations/usage.ts";
import type { Emissions, SseEvent, StreamReader, ReaderTools } from "../dialect.ts";
import { audioShape, AudioTrack, type AudioConversion, type AudioPiece, type TrackEnd } from "./audio-track.ts";
import { sniffsAsEvents } from "./event-reader.ts";
import { explainInBand } from "../errors/explain.ts";
import { SseReader } from "./sse.ts";
import { parseUntrusted } from "../untrusted.ts";

/** What the events of one read are. */
export interface AudioEvents {
  readonly pieces: readonly AudioPiece[];
  readonly skipped: readonly Emission[];
  /** The stream has ended, and what follows is ignored. */
  readonly end: TrackEnd | null;
  readonly cause: Failure | null;
}

/** Reads the events of one answer, in order. */
export interface AudioEventDecoder {
  read(events: readonly SseEvent[]): AudioEvents;
  /** The largest event that may come; absent: as usual. */
  readonly eventBytesMax?: number;
}

/** Reads audio in events: those of the OpenAI API, unless another decoder is given. A client that asked for events gets them unchanged. */
export class SpeechEventReader implements StreamReader {
  readonly type: string;
  readonly shape: StreamReader["shape"];
  finished = false;
  pending: Failure | null = null;
  private readonly events: SseReader;
  private readonly track: AudioTrack;
  private sniffed = false;

  constructor(
    conversion: AudioConversion,
    tools: ReaderTools,
    private readonly decoder: AudioEventDecoder = usualEvents,
  ) {
    this.events = new SseReader(decoder.eventBytesMax);
    ({ type: this.type, shape: this.shape } = audioShape(conversion));
    this.track = new AudioTrack(conversion, tools);
  }

  push(chunk: Uint8Array): Emissions | Promise<Emissions> {
    if (this.finished || chunk.length === 0) return none;
    if (!this.sniffed && !sniffsAsEvents(chunk)) return failure("bad_response", "the answer is not a stream of events");
    this.sniffed = true;
    const events = this.events.push(chunk);
    if (events === "too_large") return failure("bad_response", "an event of the stream is too large");
    return events.length === 0 ? none : this.taken(events, false);
  }

  close(): Emissions | Promise<Emissions> {
    return this.finished ? none : this.taken(this.events.close(), true);
  }

  destroy(): void {
    this.track.destroy();
  }

  /** Good events that arrive together with a bad one are returned first. */
  private async taken(events: readonly SseEvent[], isLast: boolean): Promise<Emissions> {
    const { pieces, skipped, end, cause } = this.decoder.read(events);
    const given = pieces.length === 0 ? none : await this.track.push(pieces);
    if (isFailure(given)) return given;
    const emissions = skipped.length === 0 ? given : [...given, ...skipped];
    const broken = cause ?? (isLast && end === null ? failure("bad_response", "the stream ended without its end event") : null);
    if (broken !== null) return this.after(emissions, broken);
    if (end === null) return emissions;
    this.finished = true;
    const closing = await this.track.close(end);
    return isFailure(closing) ? this.after(emissions, closing) : [...emissions, ...closing];
  }

  private after(emissions: readonly Emission[], broken: Failure): Emissions {
    if (emissions.length === 0) return broken;
    this.pending = broken;
    return emissions;
  }
}

const none: readonly Emission[] = [];

const usualEvents: AudioEventDecoder = { read };

function read(events: readonly SseEvent[]): AudioEvents {
  const pieces: AudioPiece[] = [];
  const skipped: Emission[] = [];
  for (const event of events) {
    // The OpenAI API has no end mark for speech, but some compatible servers send that of a chat.
    if (event.data.startsWith("[DONE]")) return { pieces, skipped, end: { usage: null, frame: null }, cause: null };
    const data = parse(event);
    if (data === null) {
      skipped.push({ kind: "skipped", detail: "an event is not a JSON object" });
      continue;
    }
    if (isError(data, event.name)) return { pieces, skipped, end: null, cause: explainInBand(data.error ?? data) };
    const isNamed = typeof data.type === "string";
    const type = isNamed ? data.type : event.name;
    if (type === speechDone) {
      return { pieces, skipped, end: { usage: usageOf(data.usage), frame: isNamed ? event.frame : null }, cause: null };
    }
    const piece = type === speechDelta ? pieceOf(data, isNamed ? event.frame : null) : { audio: nothing, frame: event.frame };
    if (piece === null) return { pieces, skipped, end: null, cause: failure("bad_response", "an event has no audio that can be read") };
    pieces.push(piece);
  }
  return { pieces, skipped, end: null, cause: null };
}

/** A frame does not contain the name of its event, so a new one is made if only the name tells the type. */
function pieceOf(data: SpeechEvent, frame: Uint8Array | null): AudioPiece | null {
  const audio = typeof data.audio === "string" ? audioOf(data.audio) : null;
  return audio === null ? null : { audio, frame: frame ?? speechDeltaFrame(audio) };
}

interface SpeechEvent {
  readonly type?: unknown;
  readonly audio?: unknown;
  readonly usage?: unknown;
  readonly error?: unknown;
}

function parse(event: SseEvent): SpeechEvent | null {
  const value = parseUntrusted(event.data, event.frame, "data: ".length, -2);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
}

function isError(data: SpeechEvent, eventName: string): boolean {
  return (data.error !== undefined && data.error !== null) || eventName === "error" || data.type === "error";
}

/** The usage of a chat under other names. */
function usageOf(value: unknown): TokenUsage | null {
  if (typeof value !== "object" || value === null) return null;
  const usage = value as Record<string, unknown>;
  return tokenUsage({
    prompt_tokens: usage["input_tokens"],
    completion_tokens: usage["output_tokens"],
    total_tokens: usage["total_tokens"],
  });
}

const nothing = new Uint8Array(0);
