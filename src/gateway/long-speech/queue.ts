import type { Route } from "../../channels/channel.ts";
import { characterCount } from "../../operations/speech/sentences.ts";
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
 * The parts of a long text in their order. While one is being sent the next are already being spoken, but not so early
 * that their upstreams would have to wait long for us: one that waits may hang up.
 */
export class SpeechQueue {
  private readonly texts: Iterator<string, void, undefined>;
  private following: string | null = null;
  private readonly room = new ReadAheadLimit();
  private readonly parts: SpeechPart[] = [];
  /** Those that are not sent yet, in their order. */
  private readonly open: OpenPart[] = [];
  private route: Route;
  private voice: string | null | undefined;
  /** Nothing is spoken ahead any more: it was too much for the channel. */
  private oneByOne = false;
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

  /** Begins the first part, whose answer is the beginning of the whole. It settles with whom the others are spoken. */
  async begin(): Promise<CallResult> {
    const first = this.add(this.following!, false);
    this.advance();
    const answer = await first.answer;
    if (answer.kind !== "failed") {
      this.voice = answer.voice;
      this.route = withSameVoice(this.call.route, this.ask.voice, answer.channel);
      this.lookAhead();
    }
    return answer;
  }

  /** The next audio of the part whose turn it is; `joint` behind its last, and `end` behind the last part. */
  async next(): Promise<Uint8Array | Failure | "joint" | "end"> {
    for (;;) {
      this.lookAhead();
      const first = this.open[0];
      if (first === undefined) return "end";
      const bytes = await first.part.take();
      if (bytes === null) return this.passed(first);
      if (!isFailure(bytes)) return bytes;
      if (!this.canRepeat(first, bytes)) return bytes;
      first.part.cancel(bytes);
      this.oneByOne = true;
      this.open[0] = this.made(first.text, first.characters, false);
    }
  }

  cancel(reason: Failure): void {
    for (const part of this.parts) part.cancel(reason);
    this.following = null;
  }

  /** How every part so far went. */
  get records(): readonly CallRecord[] {
    return this.parts.flatMap(({ records }) => records);
  }

  /** Every part that was begun has been answered, or was given up. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.parts.map(({ opening }) => opening));
  }

  private passed({ part, characters }: OpenPart): "joint" {
    this.open.shift();
    this.sentBytes += part.receivedBytes;
    this.sentCharacters += characters;
    return "joint";
  }

  /** What failed before its turn, and perhaps because it was early, gets another chance. Nobody has heard of it yet. */
  private canRepeat({ part, early }: OpenPart, cause: Failure): boolean {
    return early && part.isUntouched && cause.blame !== "client" && this.call.cancellation.failure === null;
  }

  private lookAhead(): void {
    while (this.following !== null && this.isSoon()) {
      const early = this.open.length > 0;
      const part = this.add(this.following, early);
      this.advance();
      if (early) void this.readAhead(part);
    }
  }

  /** The part behind those that are open will be needed soon. */
  private isSoon(): boolean {
    if (this.open.length === 0) return true;
    if (this.oneByOne) return this.open.every(({ part }) => part.isRead);
    if (this.open.length > aheadMax) return false;
    const perCharacter = this.sentCharacters === 0 ? guessedBytesPerCharacter : this.sentBytes / this.sentCharacters;
    const before = this.open.reduce((sum, { part, characters }) => {
      const expected = part.isRead ? 0 : Math.max(0, perCharacter * characters - part.receivedBytes);
      return sum + part.heldBytes + expected;
    }, 0);
    return before <= soonBytes;
  }

  private async readAhead(part: SpeechPart): Promise<void> {
    // What is thrown is met again by whoever takes the part.
    const cause = await part.readAhead().catch(() => null);
    if (cause !== null) this.oneByOne = true;
  }

  private add(text: string, early: boolean): SpeechPart {
    const made = this.made(text, characterCount(text), early);
    this.open.push(made);
    return made.part;
  }

  private made(text: string, characters: number, early: boolean): OpenPart {
    const { call, gateway, route, parts } = this;
    const ask = speechPart(this.ask, text);
    if (isFailure(ask)) throw new Error(`a part of a good request is not good: ${ask.detail}`);
    const isFirst = parts.length === 0;
    // Each part has the time that a call has.
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
    const { value } = this.texts.next();
    this.following = value ?? null;
  }
}

interface OpenPart {
  readonly part: SpeechPart;
  readonly text: string;
  readonly characters: number;
  /** It was begun before its turn. */
  readonly early: boolean;
}

const aheadMax = 2;
/** About forty seconds of sound: longer than a voice takes to begin, and less than there is room for. */
const soonBytes = 2 * 1024 * 1024;
/** Fifteen characters a second, at 48,000 bytes. */
const guessedBytesPerCharacter = 3200;

/** What every channel of the route takes in one request. */
function charactersMax({ route, snapshot }: Call): number {
  const limits = route.tiers.flat().map(({ deployment }) => deployment.channel.capabilities.inputCharactersMax ?? Infinity);
  return Math.min(snapshot.service.speechCharactersMax, ...limits);
}
