import { audioEnd, type AudioEnd } from "../../media/end/audio-end.ts";
import { lookAheadBytesMax, recognise, type Recognised } from "../../media/audio-sniff.ts";
import { type AudioFormat, type Transcoder, TranscoderLost, audioTypes } from "../../media/audio.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { speechDeltaFrame, speechDoneFrame } from "../../operations/speech/speech-events.ts";
import { nothingCounted, type TokenUsage } from "../../operations/usage.ts";
import type { Emissions, ReaderTools, StreamReader } from "../dialect.ts";
import { concatBytes } from "../../operations/splice.ts";

/** The format that an upstream was asked for, and the one that the client gets. */
export interface AudioConversion {
  readonly asked: AudioFormat;
  readonly wanted: AudioFormat;
  /** The client wants events with base64 audio instead of bytes. */
  readonly events: boolean;
  /** The length of the text, which is billed. */
  readonly characters: number;
  /** The rate of bare samples, where the upstream is known to send another than that of the OpenAI API. */
  readonly sampleRate?: number;
}

/** A piece of audio, with the event that contained it; null if the audio is the body itself. */
export interface AudioPiece {
  readonly audio: Uint8Array;
  readonly frame: Uint8Array | null;
}

export interface TrackEnd {
  /** The usage that the upstream reported. */
  readonly usage: TokenUsage | null;
  /** Its own end event, if that can be passed on. */
  readonly frame: Uint8Array | null;
}

/**
 * The audio of one answer, converted from the upstream's format to the client's. Nothing is passed on before the first frame of audio has
 * shown the format: until then another channel can take over. Audio in the client's format keeps its bytes.
 */
export class AudioTrack {
  /** The bytes before the format is recognised. */
  private held: HeldAudio | null = { bytes: nothing, length: 0, cost: 0, events: [] };
  private format: AudioFormat | null = null;
  private end: AudioEnd | null = null;
  private transcoding: Promise<Transcoder | null> | null = null;
  /** The transcoder may have more output: pushing nothing returns it. */
  hasMore = false;
  private trackEnd: TrackEnd | null = null;
  private hasOutput = false;
  private destroyed = false;

  constructor(
    private readonly conversion: AudioConversion,
    private readonly tools: ReaderTools,
    /** A little audio can decode to very much. A caller that supports `hasMore` gets it in steps, and need not hold all of it. */
    private readonly inSteps = false,
  ) {}

  push(pieces: readonly AudioPiece[]): Emissions | Promise<Emissions> {
    if (this.destroyed) return abandoned;
    if (this.trackEnd !== null) return this.drained(nothing, this.trackEnd);
    if (this.held === null) return this.pass(pieces);
    for (const piece of pieces) {
      if (!hold(this.held, piece)) return failure("bad_response", "the answer says too much before its audio");
    }
    const found = this.recognised(this.held, false);
    if (found === "more") return none;
    return isFailure(found) ? found : this.pass(found);
  }

  /** All of the audio at once. Nothing of it is passed on unless it is complete. */
  whole(audio: Uint8Array, trackEnd: TrackEnd): Emissions | Promise<Emissions> {
    if (this.held !== null) hold(this.held, { audio, frame: null });
    return this.close(trackEnd);
  }

  /** The body of the upstream has ended. */
  close(trackEnd: TrackEnd): Emissions | Promise<Emissions> {
    if (this.destroyed) return abandoned;
    let last: readonly AudioPiece[] = [];
    if (this.held !== null) {
      const found = this.recognised(this.held, true);
      if (found === "more") return failure("bad_response", "the answer ends before its first frame of audio");
      if (isFailure(found)) return found;
      last = found;
    }
    // Audio that was not sent yet is checked as a whole, so that an incomplete body can be retried elsewhere.
    const wrong = this.watch(last) ?? this.end!.short();
    if (wrong !== null) return failure("bad_response", wrong);
    if (this.transcodes) return this.drained(joined(last), trackEnd);
    return [...this.unchanged(last), ...this.closing(trackEnd)];
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.held = null;
    // It may still be starting. Its errors are handled where it is used.
    this.transcoding?.then((transcoder) => transcoder?.destroy()).catch(() => {});
  }

  private get transcodes(): boolean {
    return this.format !== this.conversion.wanted;
  }

  /** The held bytes, once the format is recognised; from then on nothing is held. */
  private recognised(held: HeldAudio, ended: boolean): readonly AudioPiece[] | "more" | Failure {
    const head = held.bytes.subarray(0, held.length);
    const found: Recognised = recognise(head, { ended, bare: this.conversion.asked === "pcm" });
    if (found === "more") return "more";
    if (typeof found !== "string") return failure("bad_response", found.wrong);
    this.held = null;
    this.format = found;
    this.end = audioEnd(found, head);
    return held.events.length === 0 ? [{ audio: head, frame: null }] : held.events;
  }

  private pass(pieces: readonly AudioPiece[]): Emissions | Promise<Emissions> {
    const wrong = this.watch(pieces);
    if (wrong !== null) return failure("bad_response", wrong);
    return this.transcodes ? this.transcoded(joined(pieces)) : this.unchanged(pieces);
  }

  private watch(pieces: readonly AudioPiece[]): string | null {
    for (const { audio } of pieces) {
      const wrong = this.end!.push(audio);
      if (wrong !== null) return wrong;
    }
    return null;
  }

  private unchanged(pieces: readonly AudioPiece[]): readonly Emission[] {
    return pieces.flatMap((piece) => {
      if (this.conversion.events && piece.frame !== null) return [this.delta(piece.frame, piece.audio.length > 0)];
      return this.made(piece.audio);
    });
  }

  private made(audio: Uint8Array): readonly Emission[] {
    if (audio.length === 0) return none;
    return [this.delta(this.conversion.events ? speechDeltaFrame(audio) : audio, true)];
  }

  private delta(frame: Uint8Array, isAudio: boolean): Emission {
    if (isAudio) this.hasOutput = true;
    return { kind: "delta", frame, output: isAudio ? "audio" : null, text: "", finishes: false };
  }

  private async transcoded(audio: Uint8Array): Promise<Emissions> {
    return this.attempted((transcoder) => this.worked(transcoder, audio));
  }

  private async worked(transcoder: Transcoder, audio: Uint8Array): Promise<readonly Emission[]> {
    const emissions: Emission[] = [];
    for (let left = audio; ; left = nothing) {
      const bytes = await transcoder.push(left);
      emissions.push(...this.made(bytes));
      this.hasMore = this.inSteps && bytes.length > 0;
      if (this.hasMore || bytes.length === 0) return emissions;
    }
  }

  private async drained(audio: Uint8Array, trackEnd: TrackEnd): Promise<Emissions> {
    return this.attempted(async (transcoder) => {
      this.trackEnd = trackEnd;
      const first = await this.worked(transcoder, audio);
      if (this.hasMore) return first;
      const rest = this.made(await transcoder.end());
      if (!this.hasOutput) return failure("bad_response", "the answer holds no audio");
      return [...first, ...rest, ...this.closing(trackEnd)];
    });
  }

  private async attempted(work: (transcoder: Transcoder) => Promise<Emissions>): Promise<Emissions> {
    try {
      this.transcoding ??= this.tools.transcoder(this.format!, this.conversion.wanted);
      const transcoder = await this.transcoding;
      if (this.destroyed) return abandoned;
      return transcoder === null ? withoutCodecs(this.conversion) : await work(transcoder);
    } catch (error) {
      this.destroy();
      return transcodingFailure(error, "bad_response", "the audio could not be transcoded");
    }
  }

  private closing({ usage, frame }: TrackEnd): readonly Emission[] {
    const { events, characters } = this.conversion;
    return [
      { kind: "usage", frame: null, usage: { ...(usage ?? nothingCounted), characters } },
      { kind: "end", frame: events ? (frame ?? speechDoneFrame(usage)) : nothing, finish: "stop" },
    ];
  }
}

interface HeldAudio {
  bytes: Uint8Array;
  length: number;
  /** The size of the audio and the events around it. */
  cost: number;
  events: AudioPiece[];
}

/** Events are a third larger than their audio, and some carry none. */
const heldBytesMax = 4 * lookAheadBytesMax;

function hold(held: HeldAudio, piece: AudioPiece): boolean {
  // A single large piece is examined; many pieces without recognisable audio are not collected.
  if (held.cost > heldBytesMax) return false;
  held.cost += piece.audio.length + (piece.frame?.length ?? 0);
  if (piece.frame !== null) held.events.push(piece);
  const length = held.length + piece.audio.length;
  if (held.length === 0) held.bytes = piece.audio;
  else {
    if (length > held.bytes.length) held.bytes = grown(held.bytes, held.length, length);
    held.bytes.set(piece.audio, held.length);
  }
  held.length = length;
  return true;
}

function grown(bytes: Uint8Array, used: number, needed: number): Uint8Array {
  const larger = new Uint8Array(Math.max(needed, bytes.length * 2));
  larger.set(bytes.subarray(0, used));
  return larger;
}

function joined(pieces: readonly AudioPiece[]): Uint8Array {
  return pieces.length === 1 ? pieces[0]!.audio : concatBytes(pieces.map(({ audio }) => audio));
}

const abandoned = failure("bad_response", "the answer was given up");

/** The upstream is not at fault, so nothing cools down; another channel may support the format. */
function withoutCodecs({ wanted }: AudioConversion): Failure {
  const message = `The upstream does not answer in the format '${wanted}', and this gateway has no codecs to make it.`;
  return failure("misconfigured", `the codecs to make ${wanted} are not installed`, { scope: "request", message });
}

/**
 * What an exception of a transcoder means. A transcoder that is lost is a passing problem of the gateway itself: nothing cools down, and
 * before the first output other channels can be tried. Any other exception is of the given kind.
 */
export function transcodingFailure(error: unknown, kind: "bad_response" | "internal", what: string): Failure {
  const detail = `${what}: ${error instanceof Error ? error.message : String(error)}`;
  if (!(error instanceof TranscoderLost)) return failure(kind, detail);
  return failure("saturated", detail, { message: "The gateway could not convert the audio. Try again." });
}

const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);

/** The media type for the client, and how a failure can be reported in it. */
export function audioShape({ events, wanted }: AudioConversion): Pick<StreamReader, "type" | "shape"> {
  return events ? { type: "text/event-stream; charset=utf-8", shape: "events" } : { type: audioTypes[wanted], shape: "bytes" };
}
