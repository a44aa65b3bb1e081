import { statSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";

/** The hash of a file, or `null` if it cannot be read. */
export async function fileHash(path: string, kind: "sha256" | "sha512", form: "hex" | "base64"): Promise<string | null> {
  const hasher = new Bun.CryptoHasher(kind);
  try {
    for await (const chunk of Bun.file(path).stream()) hasher.update(chunk);
  } catch {
    return null;
  }
  return hasher.digest(form);
}

/** Compares the size first, because that needs no reading. */
export async function isFile(path: string, expected: { readonly bytes: number; readonly sha256: string }): Promise<boolean> {
  return fileBytes(path) === expected.bytes && (await fileHash(path, "sha256", "hex")) === expected.sha256;
}

/** 0 if the file does not exist or is not accessible. */
export function fileBytes(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** A single write may be incomplete. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) written += (await file.write(bytes, written, bytes.length - written)).bytesWritten;
}
