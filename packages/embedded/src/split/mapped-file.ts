import { randomUUID } from "node:crypto";
import { closeSync, constants, ftruncateSync, openSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Writes bytes to a temporary file and maps it into memory, for random access without holding them. The file is unlinked before the
 * first byte is written, so that nothing is left behind however this process ends.
 */
export function mappedFile(chunks: Iterable<Uint8Array>, length: number): Uint8Array {
  const path = join(tmpdir(), `sluice-${randomUUID()}`);
  const descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    const mapped = mapUnnamed(path, descriptor, length);
    let written = 0;
    for (const chunk of chunks) {
      if (written + chunk.length > length) throw new Error("a file is longer than announced");
      for (let done = 0; done < chunk.length;) {
        const count = writeSync(descriptor, chunk, done, chunk.length - done, written);
        done += count;
        written += count;
      }
    }
    return mapped.subarray(0, written);
  } finally {
    closeSync(descriptor);
  }
}

function mapUnnamed(path: string, descriptor: number, length: number): Uint8Array {
  try {
    ftruncateSync(descriptor, length);
    return Bun.mmap(path, { shared: true });
  } finally {
    unlinkSync(path);
  }
}
