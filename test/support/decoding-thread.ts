import { decodeFile, UndecodableAudio } from "../../packages/embedded/src/codecs/decode-file.ts";

/** The thread of `damaged-audio.ts`: decodes what it is sent, and says how that went. */

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<Uint8Array>): void => {
  void decodeFile(data).then(
    ({ samples }) => self.postMessage(samples.length > 0 ? "read" : "read, and nothing is in it"),
    (error: unknown) => self.postMessage(error instanceof UndecodableAudio ? "refused" : String(error)),
  );
};
