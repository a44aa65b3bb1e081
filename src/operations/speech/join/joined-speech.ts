import { failure, type Failure } from "../../failure.ts";
import { SpeechEdges } from "./edges.ts";
import { SpeechJoints } from "./joint.ts";

/** Joins the parts of a long speech. Input and output are PCM samples, in chunks that may end inside a sample. */
export class JoinedSpeech {
  private readonly joints = new SpeechJoints();
  private edges = new SpeechEdges();
  /** The first byte of a sample whose second byte has not arrived. */
  private half: number | null = null;
  private isEmpty = true;

  /** The bytes that can be sent. */
  push(bytes: Uint8Array): Uint8Array {
    const samples = this.samplesOf(bytes);
    if (samples.length > 0) this.isEmpty = false;
    return bytesOf(this.edges.push(samples).flatMap((run) => this.joints.push(run)));
  }

  /** A part has ended: the bytes that can be sent, or why the part is incomplete. */
  partEnds(): Uint8Array | Failure {
    if (this.half !== null) return failure("bad_response", "the samples of a part end inside of one");
    if (this.isEmpty) return failure("bad_response", "a part has no samples");
    const leaving = this.joints.push(this.edges.end());
    this.joints.partEnds();
    this.edges = new SpeechEdges();
    this.isEmpty = true;
    return bytesOf(leaving);
  }

  /** All parts have ended. */
  end(): Uint8Array {
    return bytesOf([this.joints.end()]);
  }

  private samplesOf(bytes: Uint8Array): Int16Array {
    const ahead = this.half === null ? 0 : 1;
    const whole = new Uint8Array((ahead + bytes.length) & ~1);
    if (whole.length === 0) {
      this.half = bytes[0] ?? this.half;
      return new Int16Array(0);
    }
    if (this.half !== null) whole[0] = this.half;
    whole.set(bytes.subarray(0, whole.length - ahead), ahead);
    this.half = (ahead + bytes.length) % 2 === 0 ? null : bytes.at(-1)!;
    // x64 and arm64 are little-endian, like the format.
    return new Int16Array(whole.buffer);
  }
}

function bytesOf(runs: readonly Int16Array[]): Uint8Array {
  const samples = new Int16Array(runs.reduce((sum, { length }) => sum + length, 0));
  let written = 0;
  for (const run of runs) {
    samples.set(run, written);
    written += run.length;
  }
  return new Uint8Array(samples.buffer);
}
