/** The dimensions of a llama2.c transformer, from the header of its checkpoint. */
export interface Shape {
  readonly width: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly vocabulary: number;
  /** The context size in tokens: prompt and answer together. */
  readonly context: number;
}

/** The weights. Matrices are stored by rows, and those of the layers one after the other. */
export interface Checkpoint {
  readonly shape: Shape;
  readonly embedding: Float32Array;
  readonly attentionNorm: Float32Array;
  readonly query: Float32Array;
  readonly key: Float32Array;
  readonly value: Float32Array;
  readonly output: Float32Array;
  readonly feedNorm: Float32Array;
  readonly gate: Float32Array;
  readonly down: Float32Array;
  readonly up: Float32Array;
  readonly finalNorm: Float32Array;
}

const headBytes = 7 * 4;
/** So many numbers of a matrix share a scale. */
export const groupValues = 96;

/** The seven integers at the beginning of a checkpoint of llama2.c. */
export function readShape(bytes: Uint8Array<ArrayBuffer>): Shape {
  if (bytes.byteLength < headBytes) throw new Error("the checkpoint is shorter than its head");
  const head = new DataView(bytes.buffer, bytes.byteOffset, headBytes);
  const integer = (index: number): number => head.getInt32(index * 4, true);
  const [width, hidden, layers, heads, keyHeads, vocabulary, context] = [0, 1, 2, 3, 4, 5, 6].map(integer) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const shape: Shape = { width, hidden, layers, heads, vocabulary, context };
  if (Math.min(width, hidden, layers, heads, vocabulary, context) <= 0) throw new Error("the checkpoint's head makes no sense");
  if (keyHeads !== heads || width % heads !== 0) throw new Error("the checkpoint shares keys between heads, which is not supported");
  // The transformer processes four rows at once.
  if ([width, hidden, vocabulary].some((rows) => rows % 4 !== 0)) throw new Error("the checkpoint's rows cannot be taken by four");
  if (width % groupValues !== 0 || hidden % groupValues !== 0) throw new Error("the checkpoint's rows cannot be taken by groups");
  return shape;
}

/**
 * Reads a checkpoint as scripts/story-weights.ts writes it: the head and the order of llama2.c's first format, but matrices in groups of a
 * scale and signed bytes. Returns the bytes behind it as well. Only models with shared embeddings and without grouped-query attention are
 * supported.
 */
export function readCheckpoint(bytes: Uint8Array<ArrayBuffer>): {
  readonly checkpoint: Checkpoint;
  readonly rest: Uint8Array<ArrayBuffer>;
} {
  const shape = readShape(bytes);
  const { width, hidden, layers, vocabulary } = shape;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let offset = headBytes;
  const advance = (length: number): number => {
    const from = offset;
    offset += length;
    if (offset > bytes.byteLength) throw new Error("the checkpoint is shorter than its head says");
    return from;
  };
  const take = (length: number): Float32Array => {
    const from = advance(length * 4);
    return Float32Array.from({ length }, (_, index) => view.getFloat32(from + index * 4, true));
  };
  const takeMatrix = (length: number): Float32Array => {
    const groups = length / groupValues;
    let from = advance(groups * (4 + groupValues));
    const values = new Float32Array(length);
    for (let at = 0; at < length; at += groupValues, from += 4 + groupValues) {
      const scale = view.getFloat32(from, true);
      for (let index = 0; index < groupValues; index++) values[at + index] = scale * view.getInt8(from + 4 + index);
    }
    return values;
  };
  // In the order of the file.
  const checkpoint = {
    shape,
    embedding: takeMatrix(vocabulary * width),
    attentionNorm: take(layers * width),
    query: takeMatrix(layers * width * width),
    key: takeMatrix(layers * width * width),
    value: takeMatrix(layers * width * width),
    output: takeMatrix(layers * width * width),
    feedNorm: take(layers * width),
    gate: takeMatrix(layers * hidden * width),
    down: takeMatrix(layers * width * hidden),
    up: takeMatrix(layers * hidden * width),
    finalNorm: take(width),
  };
  return { checkpoint, rest: bytes.subarray(offset) };
}
