import type { Checkpoint } from "../../packages/embedded/src/chat/checkpoint.ts";

/**
 * A checkpoint and a vocabulary of llama2.c as one GGUF file (version 3, architecture `llama`, matrices in 8 bits), which is
 * what llama.cpp and its relatives read.
 */
export function ggufOf(weights: Checkpoint, tokenizer: Uint8Array, name: string): Uint8Array {
  const tensors = tensorsOf(weights);
  const facts = [...factsOf(weights, name), ...vocabularyFacts(tokenizer, weights.shape.vocabulary)];
  const head = [
    bytesOf("GGUF"),
    word(3),
    long(tensors.length),
    long(facts.length),
    ...facts.flatMap(([key, kind, value]) => [text(key), word(kind), value]),
  ];
  let offset = 0;
  for (const tensor of tensors) {
    head.push(text(tensor.name), word(tensor.size.length), ...tensor.size.map(long), word(tensor.kind), long(offset));
    offset = aligned(offset + tensor.data.length);
  }
  const headBytes = head.reduce((sum, { length }) => sum + length, 0);
  const file = new Uint8Array(aligned(headBytes) + offset);
  let at = 0;
  for (const part of head) {
    file.set(part, at);
    at += part.length;
  }
  for (const { data } of tensors) {
    at = aligned(at);
    file.set(data, at);
    at += data.length;
  }
  return file;
}

interface Tensor {
  readonly name: string;
  /** The innermost dimension first. */
  readonly size: readonly number[];
  readonly kind: number;
  readonly data: Uint8Array;
}

type Fact = readonly [key: string, kind: number, value: Uint8Array];

/** As the format numbers them. */
const kinds = { word: 4, signed: 5, real: 6, text: 8, list: 9 } as const;
const tensorKinds = { f32: 0, q8: 8 } as const;

function factsOf({ shape }: Checkpoint, name: string): readonly Fact[] {
  const whole = (key: string, value: number): Fact => [key, kinds.word, word(value)];
  return [
    ["general.architecture", kinds.text, text("llama")],
    ["general.name", kinds.text, text(name)],
    whole("general.file_type", 7),
    whole("llama.context_length", shape.context),
    whole("llama.embedding_length", shape.width),
    whole("llama.block_count", shape.layers),
    whole("llama.feed_forward_length", shape.hidden),
    whole("llama.attention.head_count", shape.heads),
    whole("llama.attention.head_count_kv", shape.heads),
    whole("llama.rope.dimension_count", shape.width / shape.heads),
    ["llama.attention.layer_norm_rms_epsilon", kinds.real, real(1e-5)],
  ];
}

/** The marks of llama2.c's vocabulary: unknown, beginning, end, then 256 single bytes, then pieces of text. */
function vocabularyFacts(tokenizer: Uint8Array, count: number): readonly Fact[] {
  const view = new DataView(tokenizer.buffer, tokenizer.byteOffset, tokenizer.byteLength);
  // A byte order mark is a piece of the vocabulary like any other.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const pieces: Uint8Array[] = [];
  const scores: Uint8Array[] = [];
  const types: Uint8Array[] = [];
  let at = 4;
  for (let token = 0; token < count; token++) {
    const length = view.getInt32(at + 4, true);
    const piece = decoder.decode(tokenizer.subarray(at + 8, at + 8 + length));
    scores.push(real(view.getFloat32(at, true)));
    pieces.push(text(spelling(token, piece)));
    types.push(word(pieceKind(token)));
    at += 8 + length;
  }
  return [
    ["tokenizer.ggml.model", kinds.text, text("llama")],
    ["tokenizer.ggml.tokens", kinds.list, list(kinds.text, pieces)],
    ["tokenizer.ggml.scores", kinds.list, list(kinds.real, scores)],
    ["tokenizer.ggml.token_type", kinds.list, list(kinds.signed, types)],
    ["tokenizer.ggml.unknown_token_id", kinds.word, word(0)],
    ["tokenizer.ggml.bos_token_id", kinds.word, word(1)],
    ["tokenizer.ggml.eos_token_id", kinds.word, word(2)],
    // A model that continues a story has no roles.
    ["tokenizer.chat_template", kinds.text, text("{% for message in messages %}{{ message['content'] }}{% endfor %}")],
  ];
}

const marks = ["<unk>", "<s>", "</s>"];

/** SentencePiece writes a single byte in hexadecimal and a blank as a block; llama2.c had resolved both. */
function spelling(token: number, piece: string): string {
  const mark = marks[token];
  if (mark !== undefined) return mark;
  if (isByte(token)) return `<0x${(token - marks.length).toString(16).toUpperCase().padStart(2, "0")}>`;
  return piece.replaceAll(" ", "\u2581");
}

/** Unknown, control, byte and normal, as the format numbers them. */
function pieceKind(token: number): number {
  if (token < marks.length) return token === 0 ? 2 : 3;
  return isByte(token) ? 6 : 1;
}

function isByte(token: number): boolean {
  return token >= marks.length && token < marks.length + 256;
}

function tensorsOf(weights: Checkpoint): readonly Tensor[] {
  const { width, hidden, layers, vocabulary } = weights.shape;
  const matrix = (name: string, all: Float32Array, columns: number, rows: number, layer = 0): Tensor => {
    const values = all.subarray(layer * rows * columns, (layer + 1) * rows * columns);
    return { name: `${name}.weight`, size: [columns, rows], kind: tensorKinds.q8, data: inEightBits(values) };
  };
  const norm = (name: string, all: Float32Array, layer = 0): Tensor => {
    const values = all.slice(layer * width, (layer + 1) * width);
    return { name: `${name}.weight`, size: [width], kind: tensorKinds.f32, data: new Uint8Array(values.buffer) };
  };
  const blocks = Array.from({ length: layers }, (_, layer) => {
    const block = `blk.${layer}`;
    return [
      norm(`${block}.attn_norm`, weights.attentionNorm, layer),
      matrix(`${block}.attn_q`, weights.query, width, width, layer),
      matrix(`${block}.attn_k`, weights.key, width, width, layer),
      matrix(`${block}.attn_v`, weights.value, width, width, layer),
      matrix(`${block}.attn_output`, weights.output, width, width, layer),
      norm(`${block}.ffn_norm`, weights.feedNorm, layer),
      matrix(`${block}.ffn_gate`, weights.gate, width, hidden, layer),
      matrix(`${block}.ffn_down`, weights.down, hidden, width, layer),
      matrix(`${block}.ffn_up`, weights.up, width, hidden, layer),
    ];
  });
  return [
    matrix("token_embd", weights.embedding, width, vocabulary),
    ...blocks.flat(),
    norm("output_norm", weights.finalNorm),
    // The classifier is the embedding again. Older readers want it spelled out.
    matrix("output", weights.embedding, width, vocabulary),
  ];
}

const blockValues = 32;
const blockBytes = 2 + blockValues;

/** Blocks of 32 values: a scale of 16 bits, then each value as a signed byte. */
function inEightBits(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array((values.length / blockValues) * blockBytes);
  const view = new DataView(bytes.buffer);
  for (let block = 0; block * blockValues < values.length; block++) {
    const part = values.subarray(block * blockValues, (block + 1) * blockValues);
    const largest = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const scale = largest / 127;
    view.setFloat16(block * blockBytes, scale, true);
    for (const [index, value] of part.entries()) {
      view.setInt8(block * blockBytes + 2 + index, scale === 0 ? 0 : Math.round(value / scale));
    }
  }
  return bytes;
}

function aligned(length: number): number {
  return Math.ceil(length / 32) * 32;
}

function bytesOf(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

function text(value: string): Uint8Array {
  const bytes = bytesOf(value);
  return joined([long(bytes.length), bytes]);
}

function list(kind: number, items: readonly Uint8Array[]): Uint8Array {
  return joined([word(kind), long(items.length), ...items]);
}

function word(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

function long(value: number): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}

function real(value: number): Uint8Array {
  return new Uint8Array(Float32Array.of(value).buffer);
}
