/** Loaded into a gateway by `objects.ts`: tells what is on its heap, each time it is asked by SIGUSR2. */
import { heapStats } from "bun:jsc";
import { renameSync, writeFileSync } from "node:fs";

const path = process.env["HEAP_REPORT"] ?? "";

process.on("SIGUSR2", () => {
  writeFileSync(`${path}.new`, JSON.stringify(heapStats().objectTypeCounts));
  renameSync(`${path}.new`, path);
});
