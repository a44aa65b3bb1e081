import type { Route } from "../../channels/channel.ts";
import { characterCount, sentences } from "../../operations/speech/sentences.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { speechPart } from "../../operations/speech/speech-part.ts";
import { speechParts } from "../../operations/speech/speech-parts.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import { partHeaders, type Call } from "../call.ts";
import type { Gateway } from "../gateway.ts";
import { ReadAheadLimit } from "./read-ahead-limit.ts";
import { SpeechPart } from "./part.ts";
import { withSameVoice } from "./route.ts";
import type { CallRecord } from "../settlement/record.ts";
import type { CallResult } from "../call-result.ts";

/**
 * The parts of a long text in order. While one is sent, the next ones are already being spoken, but not too early: an upstream whose
 * answer is not read for long may close the connection.
 */
export class SpeechQueue {
  private readonly texts: Iterator<string, void, undefined>;
  private nextText: string | null = null;
  /** What comes before the next of the texts: pieces of one that was too long for the channel. */
  private pieces: readonly string[] = [];
  /** The longest part, as learned from a channel that refused a longer one. */
  private learnedMax = Infinity;
  private readonly room = new ReadAheadLimit();
  private readonly parts: SpeechPart[] = [];
  /** The parts that have not been sent completely, in order. */
  private readonly open: OpenPart[] = [];
  private route: Route;
  private voice: string | null | undefined;
  /** No part is spoken ahead any more, because the channel could not handle it. */
  private sequential = false;
  private sentBytes = 0;
  private sentCharacters = 0;

  constructor(
    private readonly call: Call,
    private readonly ask: SpeechRequest,
    private readonly gateway: Gateway,
  ) {
    this.route = call.route;
    this.texts = speechParts(ask.input, charactersMax(call));
    this.advance();
  }

  /** Starts the first part, whose answer begins that of the whole call. It decides which channels speak the others. */
  async begin(): Promise<CallResult> {
    const first = this.add(this.nextText!, false);
    this.advance();
    const answer = await first.answer;
    if (answer.kind !== "failed") {
      this.voice = answer.voice;
      this.route = withSameVoice(this.call.route, this.ask.voice, answer.channel);
      this.startAhead();
    }
    return answer;
  }

  /** The next audio of the current part; `joint` after its last, and `end` after the last part. */
  async next(): Promise<Uint8Array | Failure | "joint" | "end"> {
    for (;;) {
      this.startAhead();
      const first = this.open[0];
      if (first === undefined) return "end";
      const bytes = await first.part.take();
      if (bytes === null) return this.passed(first);
      if (!isFailure(bytes)) return bytes;
      if (this.canDivide(first, bytes)) {
        this.divide(first, bytes);
        continue;
      }
      if (!this.canRepeat(first, bytes)) return bytes;
      first.part.cancel(bytes);
      this.sequential = true;
      this.open[0] = this.startPart(first.text, first.characters, false);
    }
  }

  cancel(reason: Failure): void {
    for (const part of this.parts) part.cancel(reason);
    this.nextText = null;
  }

  /** The records of all parts so far. */
  get records(): readonly CallRecord[] {
    return this.parts.flatMap(({ records }) => records);
  }

  /** Resolves when each started part was answered or cancelled. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.parts.map(({ opening }) => opening));
  }

  private passed({ part, characters }: OpenPart): "joint" {
    this.open.shift();
    this.sentBytes += part.receivedBytes;
    this.sentCharacters += characters;
    return "joint";
  }

  /** A part that failed before its turn, perhaps because it was started early, is tried again: none of it was sent. */
  private canRepeat({ part, early }: OpenPart, cause: Failure): boolean {
    return early && part.isUntouched && cause.blame !== "client" && this.call.cancellation.failure === null;
  }

  /**
   * Some channels count what they accept in bytes or in seconds of speech, so that a part of the usual length is too long for them: 4,096
   * Chinese characters take fourteen minutes, and one service speaks for ten at most.
   */
  private canDivide({ part, characters }: OpenPart, cause: Failure): boolean {
    return isTooLong(cause) && part.isUntouched && characters > dividedMin && this.call.cancellation.failure === null;
  }

  /** Speaks the first part in two or three, and those that follow in parts of that length. */
  private divide({ part, text, characters }: OpenPart, cause: Failure): void {
    part.cancel(cause);
    this.learnedMax = Math.ceil(characters / 2);
    const [first, ...others] = sentences(text, this.learnedMax).map((piece, at) => this.startPart(piece, characterCount(piece), at > 0));
    this.open.splice(0, 1, first!, ...others);
    for (const other of others) void this.readAhead(other.part);
    if (this.nextText === null) return;
    this.pieces = [this.nextText, ...this.pieces];
    this.advance();
  }

  private startAhead(): void {
    while (this.nextText !== null && this.isNeededSoon()) {
      const early = this.open.length > 0;
      const part = this.add(this.nextText, early);
      this.advance();
      if (early) void this.readAhead(part);
    }
  }

  /** Whether the next part will be needed soon. */
  private isNeededSoon(): boolean {
    if (this.open.length === 0) return true;
    if (this.sequential) return this.open.every(({ part }) => part.isRead);
    if (this.open.length > aheadMax) return false;
    const perCharacter = this.sentCharacters === 0 ? estimatedBytesPerCharacter : this.sentBytes / this.sentCharacters;
    const pendingBytes = this.open.reduce((sum, { part, characters }) => {
      const expected = part.isRead ? 0 : Math.max(0, perCharacter * characters - part.receivedBytes);
      return sum + part.heldBytes + expected;
    }, 0);
    return pendingBytes <= aheadBytesMax;
  }

  private async readAhead(part: SpeechPart): Promise<void> {
    // Errors are reported by `take`.
    const cause = await part.readAhead().catch(() => null);
    if (cause !== null && !isTooLong(cause)) this.sequential = true;
  }

  private add(text: string, early: boolean): SpeechPart {
    const started = this.startPart(text, characterCount(text), early);
    this.open.push(started);
    return started.part;
  }

  private startPart(text: string, characters: number, early: boolean): OpenPart {
    const { call, gateway, route, parts } = this;
    const ask = speechPart(this.ask, text);
    if (isFailure(ask)) throw new Error(`a part of a good request is not good: ${ask.detail}`);
    const isFirst = parts.length === 0;
    // Each part has the deadline of a call of its own.
    const facts = isFirst ? call.facts : { ...call.facts, startedMs: gateway.ports.nowMs() };
    const index = parts.length + 1;
    const headers = partHeaders(call, index);
    const part = new SpeechPart({ ...call, facts, ask, route, headers }, gateway, {
      room: this.room,
      voice: isFirst ? undefined : this.voice,
    });
    parts.push(part);
    return { part, text, characters, early };
  }

  private advance(): void {
    const [piece, ...left] = this.pieces;
    const text = piece ?? this.texts.next().value ?? null;
    this.pieces = left;
    this.nextText = text;
    if (text === null || characterCount(text) <= this.learnedMax) return;
    const [first, ...others] = sentences(text, this.learnedMax);
    this.nextText = first ?? null;
    this.pieces = [...others, ...left];
  }
}

interface OpenPart {
  readonly part: SpeechPart;
  readonly text: string;
  readonly characters: number;
  /** It was started before its turn. */
  readonly early: boolean;
}

const aheadMax = 2;
/** A text this short is not too long for any channel. */
const dividedMin = 100;
/** About forty seconds of audio: longer than a voice takes to start, and less than may be held. */
const aheadBytesMax = 2 * 1024 * 1024;
/** Fifteen characters per second, at 48,000 bytes per second. */
const estimatedBytesPerCharacter = 3200;

function isTooLong({ kind, code }: Failure): boolean {
  return kind === "too_large" || kind === "context_length" || code === "string_above_max_length";
}

/** The longest input that each channel of the route accepts. */
function charactersMax({ route, snapshot }: Call): number {
  const limits = route.tiers.flat().map(({ deployment }) => deployment.channel.capabilities.inputCharactersMax ?? Infinity);
  return Math.min(snapshot.service.speechCharactersMax, ...limits);
}
