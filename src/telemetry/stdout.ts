import { writeSync } from "node:fs";

/** Writes what the reader of standard output takes right now and returns how many bytes that was. */
export function writeStdout(bytes: Uint8Array): number {
  let at = 0;
  try {
    while (at < bytes.length) at += writeSync(1, bytes, at);
  } catch (error) {
    // A full pipe is tried again later; a closed one is not worth keeping lines for.
    if ((error as { code?: unknown }).code !== "EAGAIN") return bytes.length;
  }
  return at;
}
