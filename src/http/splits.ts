import type { Snapshot } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import { isFailure, type Failure } from "../operations/failure.ts";

/** Whether long ones may be worth reading: the model, and so the channel, is only known once they are. */
export function splits(key: Key | Failure, { channels }: Snapshot, what: "audio" | "input"): boolean {
  if (!isFailure(key) && key.splits[what]) return true;
  return channels.some(({ capabilities }) => (what === "audio" ? capabilities.splitsAudio : capabilities.splitsInput));
}
