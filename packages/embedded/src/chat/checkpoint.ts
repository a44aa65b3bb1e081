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

/**
 * Reads a checkpoint in the first format of llama2.c: seven integers, then the weights. The matrices are views of `bytes`, not copies.
 * Only models with shared embeddings and without grouped-query attention are supported.
 */
export function readCheckpoint(bytes: Uint8Array<ArrayBuffer>): Checkpoint {
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

  let offset = headBytes;
  const take = (length: number): Float32Array => {
    if (offset + length * 4 > bytes.byteLength) throw new Error("the checkpoint is shorter than its head says");
    const view = new Float32Array(bytes.buffer, bytes.byteOffset + offset, length);
    offset += length * 4;
    return view;
  };
  // In the order of the file.
  return {
    shape,
    embedding: take(vocabulary * width),
    attentionNorm: take(layers * width),
    query: take(layers * width * width),
    key: take(layers * width * width),
    value: take(layers * width * width),
    output: take(layers * width * width),
    feedNorm: take(layers * width),
    gate: take(layers * hidden * width),
    down: take(layers * width * hidden),
    up: take(layers * hidden * width),
    finalNorm: take(width),
  };
}
