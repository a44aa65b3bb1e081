import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Piece } from "./addon.ts";
import { problem, type AddProblem } from "./progress.ts";
import { BrokenArchive, tarEntries, type TarEntry } from "./tarball.ts";
import { writeAll } from "./files.ts";

/** An entry to extract, and its target path. */
export interface PieceTarget extends Piece {
  readonly to: string;
}

/** Extracts entries from an archive. The names in the archive are only compared, never used as paths. */
export async function unpack(
  archive: string,
  spec: string,
  targets: readonly PieceTarget[],
  signal: AbortSignal,
): Promise<AddProblem | null> {
  const missing = new Set(targets);
  try {
    for await (const entry of tarEntries(Bun.file(archive).stream())) {
      if (signal.aborted) return problem("interrupted", "Unpacking was stopped.");
      const name = entry.name.replace(/^[^/]*\//, "");
      const piece = [...missing].find((candidate) => candidate.entry === name);
      if (piece === undefined) continue;
      const differs = await take(entry, piece, spec);
      if (differs !== null) return differs;
      missing.delete(piece);
      if (missing.size === 0) return null;
    }
  } catch (error) {
    if (error instanceof BrokenArchive) return problem("differs", `The archive of ${spec} cannot be read: ${error.message}.`);
    throw error;
  }
  return problem("differs", `${[...missing].map(({ entry }) => entry).join(", ")} is not in ${spec}.`);
}

/** Extracts to a temporary name until the hash is verified. */
async function take(entry: TarEntry, piece: PieceTarget, spec: string): Promise<AddProblem | null> {
  const what = `${piece.entry} of ${spec}`;
  if (entry.bytes !== piece.bytes) {
    return problem("differs", `${what} is not the file it should be: expected ${piece.bytes} bytes, got ${entry.bytes}. It was not kept.`);
  }
  await mkdir(dirname(piece.to), { recursive: true });
  const part = `${piece.to}.part`;
  const hasher = new Bun.CryptoHasher("sha256");
  const file = await open(part, "w");
  try {
    for await (const chunk of entry.contents()) {
      hasher.update(chunk);
      await writeAll(file, chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  const got = hasher.digest("hex");
  if (got !== piece.sha256) {
    await rm(part, { force: true });
    return problem("differs", `${what} is not the file it should be: expected SHA-256 ${piece.sha256}, got ${got}. It was removed.`);
  }
  await rename(part, piece.to);
  return null;
}
