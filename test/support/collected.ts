import { resolve } from "node:path";
import { eventually } from "./eventually.ts";
import type { Gateway } from "./gateway.ts";

/** The environment of a gateway that can be told to collect its garbage. */
export const collects = { BUN_OPTIONS: `--preload=${resolve(import.meta.dir, "collecting.ts")}` };

/** What a process holds when nothing in its memory is garbage: what it takes until then is the runtime's choice, not ours. */
export interface Held {
  /** Resident memory. */
  readonly rssBytes: number;
  /** Of that, bytes that were read or are to be sent. */
  readonly bufferBytes: number;
  readonly objects: number;
}

export async function collected(gateway: Gateway): Promise<Held> {
  // What the first collection lets go of is given back to the system by the second.
  await collect(gateway);
  return collect(gateway);
}

async function collect(gateway: Gateway): Promise<Held> {
  const said = () => gateway.logs.filter(({ event }) => event === "collected");
  const before = said().length;
  gateway.signal("SIGUSR2");
  await eventually("the garbage is collected", () => said().length > before);
  const { rss, arrayBuffers, objects } = said().at(-1)!;
  return { rssBytes: Number(rss), bufferBytes: Number(arrayBuffers), objects: Number(objects) };
}
