import fc from "fast-check";

/** What requests and responses of HTTP/1.1 are made of, for tests that write them and read them back. */
export interface MessageField {
  readonly name: string;
  readonly value: string;
  /** The blanks around the value, which are no part of it. */
  readonly before: string;
  readonly after: string;
}

export interface MessageChunk {
  readonly data: Uint8Array;
  readonly extension: string;
  readonly upper: boolean;
  readonly zeros: number;
}

export interface ChunkedFraming {
  readonly kind: "chunked";
  readonly chunks: readonly MessageChunk[];
  readonly extension: string;
  readonly trailers: readonly MessageField[];
}

/** One character is one byte. */
export const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");

export const tokenCharacters = "abcXYZ019!#$%&'*+-.^_`|~";
export const visible = fc.integer({ min: 0x21, max: 0xff }).filter((code) => code !== 0x7f);
export const fieldValue = fc
  .array(fc.oneof({ weight: 5, arbitrary: visible }, { weight: 1, arbitrary: fc.constantFrom(0x20, 0x09) }), { maxLength: 16 })
  .map((codes) => String.fromCharCode(...codes).replaceAll(/^[ \t]+|[ \t]+$/g, ""));
const blank = fc.constantFrom("", " ", " ", "\t", "  \t ");

export function fieldOf(name: fc.Arbitrary<string>): fc.Arbitrary<MessageField> {
  return fc.record({ name, value: fieldValue, before: blank, after: blank });
}

export function chunkedOf(extension: fc.Arbitrary<string>, trailers: fc.Arbitrary<MessageField[]>): fc.Arbitrary<ChunkedFraming> {
  const chunk = fc.record({ data: fc.uint8Array({ minLength: 1, maxLength: 24 }), extension, upper: fc.boolean(), zeros: fc.nat(3) });
  return fc.record({ kind: fc.constant("chunked" as const), chunks: fc.array(chunk, { maxLength: 4 }), extension, trailers });
}

/** A short one, for sweeps that grow with the square. */
export const shortChunked: ChunkedFraming = {
  kind: "chunked",
  chunks: [{ data: latin1("\r\n0\r\n"), extension: ";a", upper: false, zeros: 1 }],
  extension: "",
  trailers: [{ name: "T", value: "1", before: " ", after: "" }],
};

export function plainField(name: string, value: string): MessageField {
  return { name, value, before: " ", after: "" };
}

export function writtenField({ name, value, before, after }: MessageField): string {
  return `${name}:${before}${value}${after}\r\n`;
}

/** A chunked body as it is sent, and as it is read. */
export function chunkedBody({ chunks, extension, trailers }: ChunkedFraming): readonly [raw: Uint8Array, body: Uint8Array] {
  const raw = chunks.flatMap((chunk) => {
    const size = "0".repeat(chunk.zeros) + chunk.data.length.toString(16);
    return [latin1(`${chunk.upper ? size.toUpperCase() : size}${chunk.extension}\r\n`), chunk.data, latin1("\r\n")];
  });
  const last = latin1(`0${extension}\r\n${trailers.map(writtenField).join("")}\r\n`);
  return [Buffer.concat([...raw, last]), Buffer.concat(chunks.map(({ data }) => data))];
}

/** How many bytes a parser takes of something that begins like this and has no end. `parse` reads the chunks until it refuses. */
export function takenBytes(start: string, more: string, pieceBytes: number, parse: (chunks: Iterable<Uint8Array>) => void): number {
  const piece = Buffer.alloc(pieceBytes, more, "latin1");
  let taken = 0;
  function* endless(): Generator<Uint8Array> {
    yield latin1(start);
    for (; taken < 64 * 1024 * 1024; taken += pieceBytes) yield piece;
  }
  parse(endless());
  return taken;
}

/** Good messages with a few bytes taken out, put in or changed. */
export function wounded(messages: fc.Arbitrary<Uint8Array>, words: fc.Arbitrary<string>): fc.Arbitrary<Uint8Array> {
  const wound = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.nat(3),
    put: fc.oneof(fc.uint8Array({ maxLength: 3 }), words.map(latin1)),
  });
  return fc.tuple(messages, fc.array(wound, { minLength: 1, maxLength: 3 })).map(([bytes, wounds]) =>
    wounds.reduce((hurt: Uint8Array, { at, cut, put }) => {
      const place = Math.floor(at * hurt.length);
      return Buffer.concat([hurt.subarray(0, place), put, hurt.subarray(place + cut)]);
    }, bytes),
  );
}
