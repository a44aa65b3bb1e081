import { decodeFile, UndecodableAudio } from "../../packages/embedded/src/codecs/decode-file.ts";
import { lyingContainers } from "./containers.ts";

/** Decodes containers whose numbers lie, and says how each ended and what memory all of it took at most. */
const outcomes: Record<string, string> = {};
for (const [name, file] of lyingContainers()) {
  outcomes[name] = await decodeFile(file).then(
    ({ samples }) => (samples.length > 0 ? "read" : "empty"),
    (error: unknown) => (error instanceof UndecodableAudio ? "refused" : String(error)),
  );
}
console.log(JSON.stringify({ outcomes, peakBytes: process.resourceUsage().maxRSS * 1024 }));
