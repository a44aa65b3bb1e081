import { join } from "node:path";
import { runProgram } from "./wasi-program.ts";

/** Audio samples from -1 to 1. */
export interface Sound {
  readonly samples: Float32Array;
  readonly sampleRate: number;
}

export interface Flite {
  /** Speaks a piece of plain English text. It blocks the thread for a few hundredths of the audio's duration. */
  speak(piece: string, voice: string, speed: number): Promise<Sound>;
}

/** More than the longest piece at the slowest speed, as a limit in case of a bug. */
const soundBytesMax = 32 * 1024 * 1024;
const outputName = "speech.wav";

/** Compiles the WebAssembly module once. Each piece is spoken by a new instance. */
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

/** Reads the WAV of Flite: 16 bit, mono, with a header of 44 bytes. */
function readWave(file: Uint8Array): Sound {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 44 || view.getUint16(22, true) !== 1 || view.getUint16(34, true) !== 16) throw new Error("flite wrote no speech");
  const samples = new Float32Array((file.length - 44) >> 1);
  for (let index = 0; index < samples.length; index++) samples[index] = view.getInt16(44 + index * 2, true) / 32_768;
  return { samples, sampleRate: view.getUint32(24, true) };
}
