import zlib from "node:zlib";

/** Compresses a body bit by bit: what is pushed can be decoded by the receiver at once. */
export interface Encoder {
  push(bytes: Uint8Array): Promise<Uint8Array>;
  finish(): Promise<Uint8Array>;
}

/** One encoder for several content codings, applied in order. */
export function encoderOf(codings: readonly Coding[]): Encoder {
  const stages = codings.map((coding) => makers[coding]());
  return {
    async push(bytes) {
      let output = bytes;
      for (const stage of stages) output = await stage.push(output);
      return output;
    },
    async finish() {
      let output: Uint8Array = new Uint8Array(0);
      for (const stage of stages) {
        output = Buffer.concat([await stage.push(output), await stage.finish()]);
      }
      return output;
    },
  };
}

export type Coding = "gzip" | "deflate" | "br" | "scramble";

const makers: Record<Coding, () => Encoder> = {
  gzip: () => compressor(zlib.createGzip()),
  deflate: () => compressor(zlib.createDeflate()),
  br: () => compressor(zlib.createBrotliCompress()),
  scramble: () => ({
    push: async (bytes) => bytes.map((byte) => byte ^ 0x55),
    finish: async () => new Uint8Array(0),
  }),
};

function compressor(stream: zlib.Gzip | zlib.Deflate | zlib.BrotliCompress): Encoder {
  let output: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => output.push(chunk));
  const take = () => {
    const taken = Buffer.concat(output);
    output = [];
    return taken;
  };
  return {
    async push(bytes) {
      if (bytes.length === 0) return bytes;
      stream.write(bytes);
      await new Promise<void>((resolve) => {
        stream.flush(() => resolve());
      });
      return take();
    },
    async finish() {
      const ended = new Promise((resolve) => stream.on("end", resolve));
      stream.end();
      await ended;
      return take();
    },
  };
}
