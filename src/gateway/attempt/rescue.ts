import { adopted, adoptedAnew, identityOf, type StreamIdentity } from "../../operations/chat/chat-frame.ts";
import type { StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { ContinuationSeam } from "../../operations/chat/resume.ts";
import type { LiveStream } from "./live-stream.ts";

type DeltaEmission = Extract<Emission, { kind: "delta" }>;

/** What a relay reads from: the stream of one upstream, or of a second one that took over. */
export interface EmissionSource {
  first: Emission[];
  /** The client speaks another API than the upstream: what the stream says is written anew. */
  readonly translated: boolean;
  next(): Promise<readonly Emission[] | Failure | null>;
  abandon(reason: Failure): void;
}

/** The stream of another channel for the same call. It was asked to continue the text, or to repeat the end of it first. */
export interface Successor {
  readonly stream: LiveStream;
  readonly expects: "continues" | "repeats";
  /** Ends the stream in any state. */
  leave(reason: Failure): void;
}

/** Asks another channel for the rest of a text; null if no channel provides it. */
export type Succeed = (text: string, cause: Failure) => Promise<Successor | null>;

/**
 * What is kept of a stream so that another channel can take over once if it breaks off, and the client sees one answer. Only plain
 * text can be continued, with reasoning before it. From the first tool call or other output on, a broken stream is reported as
 * interrupted. The request is held for as long as a takeover is possible.
 */
export class Rescue {
  private readonly said = new SaidText();
  private firstFrame: Uint8Array | null = null;

  constructor(
    private succeed: Succeed | null,
    private readonly held: HeldRequests,
    private readonly requestBytes: number,
    /** The client speaks another API than the upstream that answers. */
    private readonly translated: boolean,
  ) {}

  /** Looks at what is being sent to the client. */
  note(emissions: readonly Emission[]): void {
    if (this.succeed === null) return;
    for (const emission of emissions) if (emission.kind === "delta" && !this.keep(emission)) return this.end();
  }

  /** The stream broke off. Returns the stream that continues it, or null. */
  async takeOver(cause: Failure): Promise<EmissionSource | null> {
    const { succeed } = this;
    // A surface keeps the identity of the answers that it writes.
    const identity = this.firstFrame === null || this.translated ? null : identityOf(this.firstFrame);
    const { text } = this.said;
    if (succeed === null || cause.kind !== "interrupted") return null;
    this.succeed = null;
    const successor = await succeed(text, cause);
    this.release();
    if (successor === null) return null;
    // Its frames go to the client as they are, but for the identity of the first stream, which must be known.
    if (!successor.stream.translated && identity === null) {
      successor.leave(cause);
      return null;
    }
    return new JoinedStream(successor, identity, text);
  }

  /** The words of the answer so far. */
  get text(): string {
    return this.said.text;
  }

  /** A takeover is no longer possible or needed. */
  end(): void {
    if (this.succeed === null) return;
    this.succeed = null;
    this.release();
  }

  private release(): void {
    this.held.release(this.requestBytes);
  }

  /** Returns false if the stream cannot be continued from here. */
  private keep(delta: DeltaEmission): boolean {
    this.firstFrame ??= delta.frame.slice();
    switch (delta.output) {
      case null:
        return true;
      case "reasoning":
        return this.said.length === 0 && delta.text === "";
      case "text":
        // A lone surrogate cannot be encoded in UTF-8.
        if (delta.finishes || !delta.text.isWellFormed()) return false;
        this.said.add(delta.text);
        return this.said.length <= saidBytesMax;
      default:
        return false;
    }
  }
}

/**
 * The words of an answer so far, in case another channel has to continue it. That hardly ever happens, so they are kept as
 * bytes in one buffer: a string for each delta would cost more than relaying it.
 */
export class SaidText {
  private bytes = nothing;
  length = 0;

  add(text: string): void {
    this.reserve(3 * text.length);
    this.length += encoder.encodeInto(text, this.bytes.subarray(this.length)).written;
  }

  get text(): string {
    return decoder.decode(this.bytes.subarray(0, this.length));
  }

  private reserve(more: number): void {
    const needed = this.length + more;
    if (needed <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(bytesMin, needed + (this.length >> 1)));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }
}

const bytesMin = 256;
const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The second stream with the identity (id, model, time) of the first. What the client already has is left out. */
class JoinedStream implements EmissionSource {
  first: Emission[] = [];
  readonly translated: boolean;
  private opening: readonly Emission[] | null;
  private readonly stream: LiveStream;
  private readonly seam: ContinuationSeam;
  private lead = "\n\n";
  private hasBegun = false;
  /** The first delta whose words the seam held back: what it holds at the end is told in its form. */
  private held: DeltaEmission | null = null;

  constructor(
    private readonly successor: Successor,
    /** Null where the surface writes the answer, and keeps its identity. */
    private readonly identity: StreamIdentity | null,
    private readonly text: string,
  ) {
    const { stream } = successor;
    this.stream = stream;
    this.translated = stream.translated;
    this.opening = stream.first;
    stream.first = [];
    this.seam = new ContinuationSeam(text, successor.expects);
  }

  async next(): Promise<readonly Emission[] | Failure | null> {
    const opening = this.opening;
    this.opening = null;
    const emissions = opening ?? (await this.stream.next());
    if (emissions === null || isFailure(emissions)) return emissions;
    const out: Emission[] = [];
    for (const emission of emissions) {
      // Without a finish_reason, the end is the first to say that no more words come.
      const rest = emission.kind === "end" ? this.rest() : null;
      if (rest === "differs") return this.contradicted();
      if (rest !== null) out.push(rest);
      const piece = this.adopt(emission);
      if (piece === "differs") return this.contradicted();
      if (piece !== null) out.push(piece);
    }
    return out;
  }

  abandon(reason: Failure): void {
    this.successor.leave(reason);
  }

  /** One emission as if the first stream had continued; null while it repeats what the client has. */
  private adopt(emission: Emission): Emission | "differs" | null {
    const identity = this.identity ?? unknownIdentity;
    if (emission.kind === "usage") {
      return emission.frame === null ? emission : { ...emission, frame: adopted(emission.frame, identity, "", false) };
    }
    if (emission.kind !== "delta") return emission;
    const { kind, output, finishes } = emission;
    if (isNothing(this.text)) {
      if (this.translated) {
        const parts = anew(emission.parts ?? []);
        return parts.length === 0 ? null : { ...emission, parts: this.begun(parts) };
      }
      if (output === null) return null;
      const { lead } = this;
      if (output === "reasoning") this.lead = "";
      return { kind, output, finishes, text: emission.text, frame: adoptedAnew(emission.frame, identity, lead, finishes) };
    }
    // Reasoning about how to continue does not belong into the middle of a text.
    if (output === "reasoning" && emission.text === "") return null;
    if (output === "tool_call" || output === "refusal" || output === "audio") return "differs";
    const fresh = this.seam.push(emission.text);
    const held = emission.finishes ? this.seam.close() : "";
    if (fresh === "differs" || held === "differs") return "differs";
    const text = fresh + held;
    if (text === "" && !finishes) {
      if (emission.text !== "") this.held ??= { ...emission, frame: emission.frame.slice() };
      return null;
    }
    return this.joined(emission, text);
  }

  /** What the seam has held back of a stream that ends; null if nothing. */
  private rest(): Emission | "differs" | null {
    const text = this.seam.close();
    if (text === "differs") return text;
    return text === "" || this.held === null ? null : this.joined(this.held, text);
  }

  /** A delta with those of its words that the client does not have. */
  private joined(delta: DeltaEmission, text: string): Emission {
    if (this.translated) return { ...delta, text, parts: this.begun(withText(delta.parts ?? [], text)) };
    const { kind, output, finishes, frame } = delta;
    return { kind, output, finishes, text, frame: adopted(frame, this.identity ?? unknownIdentity, text, finishes) };
  }

  /**
   * Another start separates what two streams thought: a signature covers the reasoning of its own stream and nothing before. Where the
   * surface begins to write in the middle of an answer, it goes on under the identity of what the client already has.
   */
  private begun(parts: readonly StreamPart[]): readonly StreamPart[] {
    if (this.hasBegun) return parts;
    this.hasBegun = true;
    if (this.identity === null) return [nameless, ...parts];
    const { id, model, created } = this.identity;
    const createdSeconds = typeof created === "number" ? created : null;
    return [{ kind: "start", id: textOrNull(id), model: textOrNull(model), createdSeconds, resumes: true }, ...parts];
  }

  private contradicted(): Failure {
    const broken = failure("interrupted", "the channel that took over gave a different answer");
    this.successor.leave(broken);
    return broken;
  }
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

const unknownIdentity: StreamIdentity = { id: null, created: null, model: null };

/** The parts of another stream for a client that has nothing of the answer yet but reasoning. */
function anew(parts: readonly StreamPart[]): readonly StreamPart[] {
  return parts.filter(({ kind }) => kind !== "start");
}

const nameless: StreamPart = { kind: "start", id: null, model: null, createdSeconds: null };

/** The parts of another stream, of whose words the client gets only those that it does not have. */
function withText(parts: readonly StreamPart[], text: string): readonly StreamPart[] {
  const others = parts.filter(({ kind }) => !unjoined.has(kind));
  return text === "" ? others : [{ kind: "text", text }, ...others];
}

/** Reasoning about how to continue does not belong into the middle of a text, and no signature covers a text of two streams. */
const unjoined: ReadonlySet<StreamPart["kind"]> = new Set(["start", "text", "reasoning", "reasoning_signature", "text_signature"]);

/** White space alone cannot be continued. */
export function isNothing(text: string): boolean {
  return text.trim() === "";
}

const saidBytesMax = 32 * 1024;

/**
 * Limits the memory of requests that are kept while their answers are streamed, so that another channel can continue them. Beyond the
 * limit, an answer that breaks off is reported as interrupted.
 */
export class HeldRequests {
  private held = 0;

  /** Returns false if there is no room. Otherwise `release` must be called once. */
  hold(bytes: number): boolean {
    if (bytes > requestBytesMax || this.held + bytes > heldBytesMax) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.held -= bytes;
  }
}

const requestBytesMax = 1024 * 1024;
const heldBytesMax = 64 * 1024 * 1024;
