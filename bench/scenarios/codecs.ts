import { join } from "node:path";
import type { Scenario } from "../bench.ts";
import type { CodecSpeed } from "../codec-speed.ts";
import { bun, start } from "../processes.ts";

/** How many times faster than it is played audio is encoded and decoded, on one core and by CPU time. */
export const codecs: Scenario = async (bench) => {
  const { quick } = bench.options;
  const [seconds, rounds] = quick ? [10, 1] : [60, 3];
  console.error(`codecs, ${seconds} s of audio`);
  const child = start({
    name: "codecs",
    command: [...bun, join(import.meta.dir, "..", "codec-speed.ts"), String(seconds), String(rounds)],
  });
  const { speeds } = (await child.event("result", 300_000)) as { speeds: readonly CodecSpeed[] };
  await child.exited;
  bench.show({
    title: "Codecs, in seconds of audio (24 kHz, mono) per second of CPU time",
    columns: ["format", "encode", "decode"],
    lines: speeds.map(({ format, encode, decode }) => [format, encode, decode]),
  });
  return [];
};
