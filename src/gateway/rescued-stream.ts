import { DeltaRun } from "../operations/delta-run.ts";
import type { Emission } from "../operations/emission.ts";
import { adopted, identityOf, type StreamIdentity } from "../operations/chat-frame.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { Seam } from "../operations/resume.ts";
import type { LiveStream } from "./live-stream.ts";

/** What a relay reads from: a stream of one upstream, or of a second one that took over. */
export interface EmissionSource {
  first: Emission[];
  next(): Promise<readonly Emission[] | Failure | null>;
  abandon(reason: Failure): void;
}

/** Another channel's stream for the same call, and whether it was told what the client already has. */
export interface Successor {
  readonly stream: LiveStream;
  readonly expects: "continues" | "repeats";
}

/**
 * `rescue: continue`: when a text stream breaks off, another channel takes over once, and the client sees one answer.
 * Only plain text is joined; from the first tool call, thought or other output on, a broken stream is told as broken.
 */
export class RescuedStream implements EmissionSource {
  first: Emission[];
  private text = "";
  private joinable = true;
  private identity: StreamIdentity | null = null;
  private seam: Seam | null = null;
  private source: EmissionSource;

  constructor(
    stream: LiveStream,
    private readonly succeed: (text: string, cause: Failure) => Promise<Successor | null>,
  ) {
    this.source = stream;
    this.first = singly(stream.first);
    this.note(this.first);
  }

  async next(): Promise<readonly Emission[] | Failure | null> {
    const emissions = await this.source.next();
    if (emissions === null) return null;
    if (!isFailure(emissions)) return this.seam === null ? this.note(singly(emissions)) : this.joined(singly(emissions), this.seam);
    if (this.seam !== null || !this.joinable || emissions.kind !== "interrupted" || this.identity === null) return emissions;
    const successor = await this.succeed(this.text, emissions);
    if (successor === null) return emissions;
    this.source = successor.stream;
    this.seam = new Seam(this.text, successor.expects);
    return this.joined(singly(successor.stream.first), this.seam);
  }

  abandon(reason: Failure): void {
    this.source.abandon(reason);
  }

  private note(emissions: readonly Emission[]): readonly Emission[] {
    for (const emission of emissions) {
      if (emission.kind !== "delta") continue;
      this.identity ??= identityOf(emission.frame);
      this.text += emission.text;
      if ((emission.output !== null && emission.output !== "text") || this.text.length > joinableLengthMax) this.joinable = false;
    }
    return emissions;
  }

  private joined(emissions: readonly Emission[], seam: Seam): readonly Emission[] | Failure {
    const out: Emission[] = [];
    for (const emission of emissions) {
      const piece = this.adopt(emission, seam);
      if (piece === "differs") return this.contradicted();
      if (piece !== null) out.push(...piece);
    }
    return out;
  }

  /** One emission of the successor in the first stream's clothes; nothing while it only repeats what the client has. */
  private adopt(emission: Emission, seam: Seam): readonly Emission[] | "differs" | null {
    const identity = this.identity!;
    if (emission.kind === "usage") {
      return [emission.frame === null ? emission : { ...emission, frame: adopted(emission.frame, identity, "", false) }];
    }
    if (emission.kind !== "delta") return [emission];
    if (emission.output !== null && emission.output !== "text" && emission.output !== "finish") return "differs";
    const fresh = seam.push(emission.text);
    const held = emission.finishes ? seam.close() : "";
    if (fresh === "differs" || held === "differs") return "differs";
    const text = fresh + held;
    if (text === "" && !emission.finishes) return null;
    const { kind, output, finishes } = emission;
    return [{ kind, output, finishes, text, frame: adopted(emission.frame, identity, text, finishes) }];
  }

  private contradicted(): Failure {
    const broken = failure("interrupted", "the channel that took over gave a different answer");
    this.source.abandon(broken);
    return broken;
  }
}

/** Each event for itself: any of them may be the one to go on from. */
function singly(emissions: readonly Emission[]): Emission[] {
  return emissions.flatMap((emission): readonly Emission[] => (emission instanceof DeltaRun ? emission.split() : [emission]));
}

const joinableLengthMax = 32 * 1024;
