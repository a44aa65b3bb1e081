import { writeSync } from "node:fs";

/** Writes what the reader of standard output takes right now and returns how much of the text that was. */
export function writeStdout(text: string): number {
  const bytes = Buffer.from(text);
  let at = 0;
  try {
    while (at < bytes.length) at += writeSync(1, bytes, at);
  } catch (error) {
    // A full pipe is tried again later; a closed one is not worth keeping lines for.
    if ((error as { code?: unknown }).code !== "EAGAIN") return text.length;
  }
  return at === bytes.length ? text.length : bytes.toString("utf8", 0, at).length;
}
