import { join } from "node:path";
import { runProgram } from "./wasi-program.ts";

/** Speech as numbers from -1 to 1. */
export interface Sound {
  readonly samples: Float32Array;
  readonly sampleRate: number;
}

export interface Flite {
  /** Speaks a piece of plain English. It computes for a few hundredths of the sound's length and lets nothing else run. */
  speak(piece: string, voice: string, speed: number): Promise<Sound>;
}

/** Far more than the longest piece takes at the slowest speed; a program gone wrong stops here. */
const soundBytesMax = 32 * 1024 * 1024;
const outputName = "speech.wav";

/** Compiles the program in the package's folder once. Each piece is then spoken by an instance of its own. */
export async function loadFlite(directory: string): Promise<Flite> {
  const module = await WebAssembly.compile(await Bun.file(join(directory, "flite.wasm")).arrayBuffer());
  return {
    async speak(piece, voice, speed) {
      const { code, output } = await runProgram(module, {
        arguments: ["flite", "-voice", voice, "--setf", `duration_stretch=${1 / speed}`, "-t", piece, "-o", `/${outputName}`],
        outputName,
        outputBytesMax: soundBytesMax,
      });
      if (code !== 0) throw new Error(`flite ended with ${code}`);
      return readWave(output);
    },
  };
}

/** Flite's own WAV: 16 bit, mono, and a head of 44 bytes. */
function readWave(file: Uint8Array): Sound {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 44 || view.getUint16(22, true) !== 1 || view.getUint16(34, true) !== 16) throw new Error("flite wrote no speech");
  const samples = new Float32Array((file.length - 44) >> 1);
  for (let index = 0; index < samples.length; index++) samples[index] = view.getInt16(44 + index * 2, true) / 32_768;
  return { samples, sampleRate: view.getUint32(24, true) };
}
