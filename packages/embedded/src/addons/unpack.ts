import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Piece } from "./addon.ts";
import { problem, type AddProblem } from "./problem.ts";
import { BrokenArchive, tarEntries, type TarEntry } from "./tarball.ts";
import { writeAll } from "./write-all.ts";

/** An entry to take, and where to put it. */
export interface Wanted extends Piece {
  readonly to: string;
}

/** Takes entries out of an archive. Where they go is ours to say: the names in the archive are only compared. */
export async function unpack(archive: string, spec: string, wanted: readonly Wanted[], signal: AbortSignal): Promise<AddProblem | null> {
  const missing = new Set(wanted);
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

/** Under another name until it is found to be right. */
async function take(entry: TarEntry, piece: Wanted, spec: string): Promise<AddProblem | null> {
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
