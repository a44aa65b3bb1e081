import { statSync } from "node:fs";

/** The hash of a file's bytes, or `null` when it cannot be read. */
export async function fileHash(path: string, kind: "sha256" | "sha512", form: "hex" | "base64"): Promise<string | null> {
  const hasher = new Bun.CryptoHasher(kind);
  try {
    for await (const chunk of Bun.file(path).stream()) hasher.update(chunk);
  } catch {
    return null;
  }
  return hasher.digest(form);
}

/** The size comes first: it is told without reading. */
export async function isFile(path: string, expected: { readonly bytes: number; readonly sha256: string }): Promise<boolean> {
  return fileBytes(path) === expected.bytes && (await fileHash(path, "sha256", "hex")) === expected.sha256;
}

/** 0 where there is no such file, or none that we may look at. */
export function fileBytes(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
