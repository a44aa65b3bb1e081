import { InferenceSession, Tensor } from "onnxruntime-node";

/** Kokoro's graph: phonemes and a style to sound, at 24 kHz. */
export interface KokoroNetwork {
  speak(tokens: readonly number[], style: Float32Array, speed: number): Promise<Float32Array>;
  close(): Promise<void>;
}

/**
 * Unlike Whisper's graphs this one makes thousands of large allocations in a run: with the arena it is a third quicker and needs
 * half as much at its peak, and the process does not live long without work. Threads that wait sleep.
 */
export async function loadKokoroNetwork(path: string, threads: number): Promise<KokoroNetwork> {
  const session = await InferenceSession.create(path, {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    enableMemPattern: false,
    extra: { session: { "intra_op.allow_spinning": "0" } },
  });
  return {
    async speak(tokens, style, speed) {
      const framed = BigInt64Array.from([boundary, ...tokens, boundary], BigInt);
      const { waveform } = await session.run({
        input_ids: new Tensor("int64", framed, [1, framed.length]),
        style: new Tensor("float32", style, [1, style.length]),
        speed: new Tensor("float32", Float32Array.of(speed), [1]),
      });
      if (waveform === undefined) throw new Error("The graph gave no waveform.");
      return waveform.data as Float32Array;
    },
    close: () => session.release(),
  };
}

/** Stands at both ends of what is spoken. */
const boundary = 0;
