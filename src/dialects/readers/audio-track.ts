import { audioEnd, type AudioEnd } from "../../media/end/audio-end.ts";
import { lookAheadBytesMax, recognise, type Recognised } from "../../media/audio-sniff.ts";
import { type AudioFormat, type Transcoder, TranscoderLost, audioTypes } from "../../media/audio.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { speechDeltaFrame, speechDoneFrame } from "../../operations/speech/speech-events.ts";
import { nothingCounted, type TokenUsage } from "../../operations/usage.ts";
import type { Emissions, ReaderTools, StreamReader } from "../dialect.ts";

/** What an upstream was asked for, and what the client is to get of it. */
export interface AudioWish {
  readonly asked: AudioFormat;
  readonly wanted: AudioFormat;
  /** The client wants events with base64 audio instead of bytes. */
  readonly events: boolean;
  /** Of the text that is spoken, for the bill. */
  readonly characters: number;
}

/** A run of audio, with the event it came in. Where audio comes bare, there is none. */
export interface AudioPiece {
  readonly audio: Uint8Array;
  readonly frame: Uint8Array | null;
}

export interface TrackEnd {
  /** What the upstream counted, if it did. */
  readonly usage: TokenUsage | null;
  /** Its own end event, where that can be passed on as it is. */
  readonly frame: Uint8Array | null;
}

/**
 * The audio of one answer, on its way from whatever an upstream sends to what the client asked for. Nothing is let
 * through before the first frame of audio has proved what it is: until then another channel can take over. Audio in the
 * format asked for keeps its bytes; all other goes through a transcoder.
 */
export class AudioTrack {
  /** What came before it was recognised. */
  private held: HeldAudio | null = { bytes: nothing, length: 0, cost: 0, events: [] };
  private format: AudioFormat | null = null;
  private end: AudioEnd | null = null;
  private transcoding: Promise<Transcoder | null> | null = null;
  /** The transcoder may have more of what it was given: pushing nothing gives it. */
  hasMore = false;
  private told: TrackEnd | null = null;
  private spoke = false;
  private destroyed = false;

  constructor(
    private readonly wish: AudioWish,
    private readonly tools: ReaderTools,
    /** A little audio can decode to very much. A caller that asks for the rest with `hasMore` need not hold all of it. */
    private readonly inSteps = false,
  ) {}

  push(pieces: readonly AudioPiece[]): Emissions | Promise<Emissions> {
    if (this.destroyed) return givenUp;
    if (this.told !== null) return this.drained(nothing, this.told);
    if (this.held === null) return this.pass(pieces);
    for (const piece of pieces) {
      if (!hold(this.held, piece)) return failure("bad_response", "the answer says too much before its audio");
    }
    const found = this.recognised(this.held, false);
    if (found === "more") return none;
    return isFailure(found) ? found : this.pass(found);
  }

  /** The body of the upstream has ended. */
  close(told: TrackEnd): Emissions | Promise<Emissions> {
    if (this.destroyed) return givenUp;
    let last: readonly AudioPiece[] = [];
    if (this.held !== null) {
      const found = this.recognised(this.held, true);
      if (found === "more") return failure("bad_response", "the answer ends before its first frame of audio");
      if (isFailure(found)) return found;
      last = found;
    }
    // What never left is judged as a whole, so that a short body can still be asked for elsewhere.
    const wrong = this.watch(last) ?? this.end!.short();
    if (wrong !== null) return failure("bad_response", wrong);
    if (this.transcodes) return this.drained(joined(last), told);
    return [...this.unchanged(last), ...this.closing(told)];
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.held = null;
    // It may still be in the making. What it throws is dealt with where it is used.
    this.transcoding?.then((transcoder) => transcoder?.destroy()).catch(() => {});
  }

  private get transcodes(): boolean {
    return this.format !== this.wish.wanted;
  }

  /** What was held, once it is known to be audio; from then on nothing is. */
  private recognised(held: HeldAudio, ended: boolean): readonly AudioPiece[] | "more" | Failure {
    const head = held.bytes.subarray(0, held.length);
    const found: Recognised = recognise(head, { ended, bare: this.wish.asked === "pcm" });
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
      if (this.wish.events && piece.frame !== null) return [this.delta(piece.frame, piece.audio.length > 0)];
      return this.made(piece.audio);
    });
  }

  private made(audio: Uint8Array): readonly Emission[] {
    if (audio.length === 0) return none;
    return [this.delta(this.wish.events ? speechDeltaFrame(audio) : audio, true)];
  }

  private delta(frame: Uint8Array, isAudio: boolean): Emission {
    if (isAudio) this.spoke = true;
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

  private async drained(audio: Uint8Array, told: TrackEnd): Promise<Emissions> {
    return this.attempted(async (transcoder) => {
      this.told = told;
      const first = await this.worked(transcoder, audio);
      if (this.hasMore) return first;
      const rest = this.made(await transcoder.end());
      if (!this.spoke) return failure("bad_response", "the answer holds no audio");
      return [...first, ...rest, ...this.closing(told)];
    });
  }

  private async attempted(work: (transcoder: Transcoder) => Promise<Emissions>): Promise<Emissions> {
    try {
      this.transcoding ??= this.tools.transcoder(this.format!, this.wish.wanted);
      const transcoder = await this.transcoding;
      if (this.destroyed) return givenUp;
      return transcoder === null ? withoutCodecs(this.wish) : await work(transcoder);
    } catch (error) {
      this.destroy();
      const detail = `the audio could not be transcoded: ${error instanceof Error ? error.message : String(error)}`;
      return error instanceof TranscoderLost ? withoutTranscoder(detail) : failure("bad_response", detail);
    }
  }

  private closing({ usage, frame }: TrackEnd): readonly Emission[] {
    const { events, characters } = this.wish;
    return [
      { kind: "usage", frame: null, usage: { ...(usage ?? nothingCounted), characters } },
      { kind: "end", frame: events ? (frame ?? speechDoneFrame(usage)) : nothing, finish: "stop" },
    ];
  }
}

interface HeldAudio {
  bytes: Uint8Array;
  length: number;
  /** Of the audio and of the events around it. */
  cost: number;
  events: AudioPiece[];
}

/** Events are a third larger than their audio, and some carry none. */
const heldBytesMax = 4 * lookAheadBytesMax;

function hold(held: HeldAudio, piece: AudioPiece): boolean {
  // A single large piece is looked at; many that say nothing are not collected.
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
  if (pieces.length === 1) return pieces[0]!.audio;
  const whole = new Uint8Array(pieces.reduce((length, { audio }) => length + audio.length, 0));
  let written = 0;
  for (const { audio } of pieces) {
    whole.set(audio, written);
    written += audio.length;
  }
  return whole;
}

const givenUp = failure("bad_response", "the answer was given up");

/** Nothing is wrong with the upstream, so nothing of it cools down; another channel may speak the format itself. */
function withoutCodecs({ wanted }: AudioWish): Failure {
  const message = `The upstream does not answer in the format '${wanted}', and this gateway has no codecs to make it.`;
  return failure("misconfigured", `the codecs to make ${wanted} are not installed`, { scope: "request", message });
}

/** The gateway's own trouble, and one that passes: nothing cools down, and as long as nothing was sent others may be asked. */
function withoutTranscoder(detail: string): Failure {
  return failure("saturated", detail, { message: "The gateway could not convert the audio. Try again." });
}

const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);

/** What a client is given: the media type, and how a failure can be told in it. */
export function audioShape({ events, wanted }: AudioWish): Pick<StreamReader, "type" | "shape"> {
  return events ? { type: "text/event-stream; charset=utf-8", shape: "events" } : { type: audioTypes[wanted], shape: "bytes" };
}
