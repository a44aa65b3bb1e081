import { DeltaRun } from "./delta-run.ts";
import type { Emission } from "../emission.ts";

/**
 * The words of an answer so far, in case another channel has to continue it. That hardly ever happens, so they are kept as
 * bytes in one buffer: a string for each delta would cost more than relaying it.
 */
export class SaidText {
  private bytes = nothing;
  length = 0;

  add(delta: Extract<Emission, { kind: "delta" }>): void {
    if (delta instanceof DeltaRun) {
      this.reserve(delta.wordBytes);
      this.length = delta.copyWords(this.bytes, this.length);
    } else {
      this.reserve(3 * delta.text.length);
      this.length += encoder.encodeInto(delta.text, this.bytes.subarray(this.length)).written;
    }
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
