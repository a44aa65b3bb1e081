import type { Checkpoint } from "./checkpoint.ts";

/** One sequence: it holds the keys and values of the tokens so far. */
export interface Transformer {
  /** Processes the next token. */
  feed(token: number): void;
  /** The scores (logits) of the next token. The array is reused by the next call. */
  scores(): Float32Array;
}

/** The epsilon of RMSNorm, as in training. */
const normFloor = 1e-5;
const rotationBase = 10_000;

/** A new sequence with shared weights. Its state takes a few megabytes. */
export function makeTransformer(checkpoint: Checkpoint): Transformer {
  const { width, hidden, layers, heads, vocabulary, context } = checkpoint.shape;
  const headWidth = width / heads;
  const keys = new Float32Array(layers * context * width);
  const values = new Float32Array(layers * context * width);
  const stream = new Float32Array(width);
  const normed = new Float32Array(width);
  const query = new Float32Array(width);
  const mixed = new Float32Array(width);
  const change = new Float32Array(width);
  const gated = new Float32Array(hidden);
  const raised = new Float32Array(hidden);
  const attention = new Float32Array(context);
  const scores = new Float32Array(vocabulary);
  let position = 0;
  let angles = anglesAt(position, headWidth);

  const attend = (layer: number): void => {
    const square = layer * width * width;
    const past = layer * context * width;
    const key = keys.subarray(past + position * width, past + (position + 1) * width);
    const value = values.subarray(past + position * width, past + (position + 1) * width);
    normalise(normed, stream, checkpoint.attentionNorm, layer * width);
    multiply(query, checkpoint.query, square, normed);
    multiply(key, checkpoint.key, square, normed);
    multiply(value, checkpoint.value, square, normed);
    rotate(query, angles);
    rotate(key, angles);

    mixed.fill(0);
    for (let head = 0; head < heads; head++) {
      const from = head * headWidth;
      for (let at = 0; at <= position; at++) {
        attention[at] = dot(query, from, keys, past + at * width + from, headWidth) / Math.sqrt(headWidth);
      }
      softmax(attention, position + 1);
      for (let at = 0; at <= position; at++) {
        const weight = attention[at] ?? 0;
        const row = past + at * width + from;
        for (let index = 0; index < headWidth; index++) mixed[from + index]! += weight * values[row + index]!;
      }
    }
    multiply(change, checkpoint.output, square, mixed);
    add(stream, change);
  };

  const think = (layer: number): void => {
    const rectangle = layer * width * hidden;
    normalise(normed, stream, checkpoint.feedNorm, layer * width);
    multiply(gated, checkpoint.gate, rectangle, normed);
    multiply(raised, checkpoint.up, rectangle, normed);
    for (let index = 0; index < hidden; index++) {
      const gate = gated[index]!;
      gated[index] = (gate / (1 + Math.exp(-gate))) * raised[index]!;
    }
    multiply(change, checkpoint.down, rectangle, gated);
    add(stream, change);
  };

  return {
    feed(token) {
      if (position >= context) throw new Error("the text is longer than the model's context");
      if (!Number.isInteger(token) || token < 0 || token >= vocabulary) throw new Error(`there is no token ${token}`);
      stream.set(checkpoint.embedding.subarray(token * width, (token + 1) * width));
      angles = anglesAt(position, headWidth);
      for (let layer = 0; layer < layers; layer++) {
        attend(layer);
        think(layer);
      }
      position++;
    },
    scores() {
      normalise(normed, stream, checkpoint.finalNorm, 0);
      multiply(scores, checkpoint.embedding, 0, normed);
      return scores;
    },
  };
}

/** RMSNorm. */
function normalise(into: Float32Array, from: Float32Array, weights: Float32Array, offset: number): void {
  const scale = 1 / Math.sqrt(dot(from, 0, from, 0, from.length) / from.length + normFloor);
  for (let index = 0; index < from.length; index++) into[index] = weights[offset + index]! * (from[index]! * scale);
}

/** The rotation angles of a position (RoPE). */
function anglesAt(position: number, headWidth: number): readonly { readonly cosine: number; readonly sine: number }[] {
  return Array.from({ length: headWidth / 2 }, (_, pair) => {
    const angle = position / rotationBase ** ((pair * 2) / headWidth);
    return { cosine: Math.cos(angle), sine: Math.sin(angle) };
  });
}

/** Applies the rotary position embedding (RoPE). */
function rotate(vector: Float32Array, angles: ReturnType<typeof anglesAt>): void {
  for (let index = 0; index < vector.length; index += 2) {
    const { cosine, sine } = angles[(index >> 1) % angles.length]!;
    const left = vector[index]!;
    const right = vector[index + 1]!;
    vector[index] = left * cosine - right * sine;
    vector[index + 1] = left * sine + right * cosine;
  }
}

/**
 * Multiplies a matrix, which begins at `offset`, by a vector. Nearly all of the time is spent here: four rows are processed at once,
 * because otherwise each addition would have to wait for the one before.
 */
function multiply(into: Float32Array, matrix: Float32Array, offset: number, vector: Float32Array): void {
  const columns = vector.length;
  for (let row = 0; row < into.length; row += 4) {
    const first = offset + row * columns;
    const second = first + columns;
    const third = second + columns;
    const fourth = third + columns;
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let column = 0; column < columns; column++) {
      const factor = vector[column]!;
      a += factor * matrix[first + column]!;
      b += factor * matrix[second + column]!;
      c += factor * matrix[third + column]!;
      d += factor * matrix[fourth + column]!;
    }
    into[row] = a;
    into[row + 1] = b;
    into[row + 2] = c;
    into[row + 3] = d;
  }
}

function dot(left: Float32Array, leftFrom: number, right: Float32Array, rightFrom: number, length: number): number {
  let sum = 0;
  for (let index = 0; index < length; index++) sum += left[leftFrom + index]! * right[rightFrom + index]!;
  return sum;
}

function add(into: Float32Array, change: Float32Array): void {
  for (let index = 0; index < into.length; index++) into[index]! += change[index]!;
}

/** Softmax of the first `length` scores, in place. */
export function softmax(scores: Float32Array, length: number, temperature = 1): void {
  let highest = -Infinity;
  for (let index = 0; index < length; index++) highest = Math.max(highest, scores[index]!);
  let sum = 0;
  for (let index = 0; index < length; index++) {
    const share = Math.exp((scores[index]! - highest) / temperature);
    scores[index] = share;
    sum += share;
  }
  for (let index = 0; index < length; index++) scores[index]! /= sum;
}
