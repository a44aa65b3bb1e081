import type { FileHandle } from "node:fs/promises";

/** A write may take less than it was given. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) written += (await file.write(bytes, written, bytes.length - written)).bytesWritten;
}
