import { heapStats } from "bun:jsc";
import { isMainThread } from "node:worker_threads";

/** Preloaded into a gateway under test: a signal makes it collect its garbage and say what it still holds. */
if (isMainThread) {
  process.on("SIGUSR2", () => {
    Bun.gc(true);
    const { rss, arrayBuffers } = process.memoryUsage();
    // Not among the lines of the log: of those a full pipe may have taken the last one in part.
    console.error(JSON.stringify({ event: "collected", rss, arrayBuffers, objects: heapStats().objectCount }));
  });
}
