import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { addressOf, fileOf, recordings } from "./list.ts";

/**
 * Brings the recordings onto this machine. They are not ours, and stay out of the repository; their hashes say that they are the ones
 * that were looked at.
 */
for (const recording of recordings) {
  const file = fileOf(recording);
  if (existsSync(file)) continue;
  const response = await fetch(addressOf(recording));
  if (!response.ok) throw new Error(`${addressOf(recording)}: ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const hash = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  if (hash !== recording.sha256) throw new Error(`${addressOf(recording)} is another file than the one that was looked at`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, bytes);
}
