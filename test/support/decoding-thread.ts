import { parentPort } from "node:worker_threads";
import { decodeFile, UndecodableAudio } from "../../packages/embedded/src/codecs/decode-file.ts";

/** The thread of `damaged-audio.ts`: decodes what it is sent, and says how that went. */
parentPort?.on("message", (file: Uint8Array) => {
  void decodeFile(file).then(
    ({ samples }) => parentPort?.postMessage(samples.length > 0 ? "read" : "read, and nothing is in it", []),
    (error: unknown) => parentPort?.postMessage(error instanceof UndecodableAudio ? "refused" : String(error), []),
  );
});
