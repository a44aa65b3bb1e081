import { describe, expect, test } from "bun:test";
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { contentCodings, Decompression } from "../../../src/net/message/decompression.ts";

const encoders: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  gzip: (bytes) => gzipSync(bytes),
  deflate: (bytes) => deflateSync(bytes),
  br: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: (bytes) => zstdCompressSync(bytes),
};
const codings = Object.keys(encoders);
const text = Buffer.from("The same words, again and again. ".repeat(50));

/** Reads everything. What it ends with is not bytes. */
async function decoded(coding: string, bytes: Uint8Array, step: number, ending: "gone" | null = null): Promise<[Buffer, unknown]> {
  let at = 0;
  const source = {
    next: () => {
      const part = bytes.subarray(at, (at += step));
      return Promise.resolve(part.length > 0 ? part : ending);
    },
  };
  const decompression = new Decompression(source, contentCodings.get(coding) ?? "");
  const parts: Uint8Array[] = [];
  for (;;) {
    const part = await decompression.next();
    if (!(part instanceof Uint8Array)) return [Buffer.concat(parts), part];
    parts.push(part);
  }
}

describe.each(codings)("%s", (coding) => {
  const encoded = encoders[coding]?.(text) ?? new Uint8Array(0);

  test("is undone, however it is cut", async () => {
    for (const step of [1, 2, 7, encoded.length]) expect(await decoded(coding, encoded, step)).toEqual([text, null]);
  });

  test("that is cut off anywhere is malformed", async () => {
    for (let length = 0; length < encoded.length; length++) {
      const [, end] = await decoded(coding, encoded.subarray(0, length), encoded.length);
      expect([length, end]).toEqual([length, "malformed"]);
    }
  });

  test("is not garbage, nor followed by it", async () => {
    expect((await decoded(coding, Buffer.from('{"model":"m","messages":[]}'), 5))[1]).toBe("malformed");
    expect((await decoded(coding, Buffer.concat([encoded, Buffer.from("more")]), 1000))[1]).toBe("malformed");
  });

  test("tells why its source ended early", async () => {
    expect((await decoded(coding, encoded.subarray(0, encoded.length - 4), 3, "gone"))[1]).toBe("gone");
  });

  test("that expands beyond measure is given up early", async () => {
    const bomb = encoders[coding]?.(Buffer.alloc(32 * 1024 * 1024)) ?? new Uint8Array(0);
    const [bytes, end] = await decoded(coding, bomb, 16 * 1024);
    expect(end).toBe("bomb");
    expect(bytes.length).toBeLessThan(5 * 1024 * 1024);
  });
});

test("a cancelled decompression does not look like the end of the body", async () => {
  const decompression = new Decompression({ next: () => new Promise<never>(() => {}) }, "gzip");
  const pending = decompression.next();
  decompression.cancel();
  expect(await pending).toBe("cancelled");
});
