import { floatsOf, type Tensor } from "../onnx/tensor.ts";
import { framesPerSecond } from "./mel.ts";
import type { Network } from "./network.ts";
import type { Vocabulary } from "./vocabulary.ts";

const medianWidth = 7;
/** The encoder halves the number of frames: one position is 20 ms. */
const positionsPerSecond = framesPerSecond / 2;

/**
 * The start time of each token in seconds from the beginning of the window, and the end of the last one. Some attention heads of the
 * decoder follow the audio, so that the cheapest monotonic path through their attention (dynamic time warping) aligns text and time.
 */
export async function tokenTimes(
  network: Network,
  vocabulary: Vocabulary,
  encoded: Tensor,
  opening: readonly number[],
  text: readonly number[],
  windowFrames: number,
): Promise<Float64Array> {
  const layers = [...new Set(vocabulary.alignmentHeads.map(([layer]) => layer))];
  const tokens = [...opening, vocabulary.noTimestamps, ...text, vocabulary.endOfText];
  const attentions = await network.attend(encoded, tokens, layers);
  const positions = Math.max(1, Math.ceil(windowFrames / 2));
  const looks = vocabulary.alignmentHeads.map(([layer, head]) => look(attentions.get(layer)!, head, tokens.length, positions));
  // The row of a token shows where the next one is in the audio.
  const rows = Array.from({ length: text.length + 1 }, (_, at) => average(looks, (opening.length + at) * positions, positions));
  return firstPositions(rows).map((position) => position / positionsPerSecond);
}

/** The attention of one head, as tokens by positions: normalised over the tokens, and median-filtered. */
function look(attention: Tensor, head: number, tokens: number, positions: number): Float64Array {
  const weights = floatsOf(attention);
  const width = attention.dims[3]!;
  const shares = new Float64Array(tokens * positions);
  for (let token = 0; token < tokens; token++) {
    const from = (head * tokens + token) * width;
    let sum = 0;
    for (let at = 0; at < positions; at++) sum += weights[from + at]!;
    for (let at = 0; at < positions; at++) shares[token * positions + at] = weights[from + at]! / (sum || 1);
  }
  for (let at = 0; at < positions; at++) standardise(shares, at, positions);
  const smooth = new Float64Array(shares.length);
  for (let token = 0; token < tokens; token++) medianFilter(shares, smooth, token * positions, positions);
  return smooth;
}

function standardise(values: Float64Array, first: number, stride: number): void {
  const count = values.length / stride;
  let mean = 0;
  for (let at = first; at < values.length; at += stride) mean += values[at]! / count;
  let variance = 0;
  for (let at = first; at < values.length; at += stride) variance += (values[at]! - mean) ** 2 / count;
  const deviation = Math.sqrt(variance) || 1;
  for (let at = first; at < values.length; at += stride) values[at] = (values[at]! - mean) / deviation;
}

function medianFilter(from: Float64Array, to: Float64Array, start: number, length: number): void {
  const half = (medianWidth - 1) / 2;
  const around = new Float64Array(medianWidth);
  for (let at = 0; at < length; at++) {
    for (let taken = 0; taken < medianWidth; taken++) {
      const value = from[start + mirrored(at + taken - half, length)]!;
      let place = taken;
      for (; place > 0 && around[place - 1]! > value; place--) around[place] = around[place - 1]!;
      around[place] = value;
    }
    to[start + at] = around[half]!;
  }
}

function mirrored(at: number, length: number): number {
  const inside = at < 0 ? -at : at >= length ? 2 * (length - 1) - at : at;
  return Math.min(length - 1, Math.max(0, inside));
}

function average(looks: readonly Float64Array[], start: number, length: number): Float64Array {
  return Float64Array.from({ length }, (_, at) => looks.reduce((sum, values) => sum + values[start + at]!, 0) / looks.length);
}

/** Dynamic time warping: the first position of each row on the best path. */
function firstPositions(rows: readonly Float64Array[]): Float64Array {
  const columns = rows[0]!.length;
  const stay = 0;
  const nextRow = 1;
  const both = 2;
  const steps = rows.map(() => new Uint8Array(columns));
  let above = new Float64Array(columns + 1).fill(-Infinity);
  above[0] = 0;
  for (const [row, values] of rows.entries()) {
    const current = new Float64Array(columns + 1).fill(-Infinity);
    for (let column = 0; column < columns; column++) {
      const [diagonal, up, left] = [above[column]!, above[column + 1]!, current[column]!];
      const step = diagonal >= up && diagonal >= left ? both : up >= left ? nextRow : stay;
      steps[row]![column] = step;
      current[column + 1] = values[column]! + Math.max(diagonal, up, left);
    }
    above = current;
  }
  const firsts = new Float64Array(rows.length);
  let column = columns - 1;
  for (let row = rows.length - 1; row >= 0 && column >= 0;) {
    firsts[row] = column;
    const step = steps[row]![column]!;
    if (step !== stay) row--;
    if (step !== nextRow) column--;
  }
  return firsts;
}
