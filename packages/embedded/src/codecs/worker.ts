import type { AudioFormat } from "../../../../src/media/audio.ts";
import { prepareEncoder } from "./encode.ts";
import { joinBytes } from "./bytes.ts";
import { makeTranscoder, type SlicedTranscoder } from "./transcoder.ts";
import { UndecodableAudio } from "./codec.ts";

/**
 * A worker that transcodes for many callers. Every message but `destroy` is answered once, under the number of its call; the
 * calls of one transcoder come one at a time. An answer holds a bounded step of what there is to give: with `more` the caller
 * asks again when it has passed that on. All who ask take turns.
 */
type Message =
  | { readonly type: "make"; readonly call: number; readonly id: number; readonly from: AudioFormat; readonly to: AudioFormat }
  | { readonly type: "push"; readonly call: number; readonly id: number; readonly bytes: Uint8Array }
  | { readonly type: "end"; readonly call: number; readonly id: number }
  | { readonly type: "destroy"; readonly id: number };

type Answer =
  | { readonly call: number; readonly type: "done"; readonly bytes: Uint8Array; readonly more: boolean }
  | { readonly call: number; readonly type: "absent" }
  /** `audio` says whose fault it is: of what was to be read, or ours. */
  | { readonly call: number; readonly type: "failed"; readonly message: string; readonly audio: boolean }
  /** The worker is at work, and not stuck. */
  | { readonly type: "alive" };

declare const self: Worker;

const stepBytesMax = 256 * 1024;
/** Of its own work, without the turns of the others. */
const stepMsMax = 1000;
const turnMsMax = 4;
const aliveMs = 500;
const transcoders = new Map<number, SlicedTranscoder>();
let postedMs = 0;

self.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if (data.type === "destroy") {
    destroy(data.id);
    return;
  }
  const { call, id } = data;
  work(data).then(post, (error: unknown) => {
    destroy(id);
    if (isMissingModule(error)) return post({ call, type: "absent" });
    const message = error instanceof Error ? error.message : "the codec failed";
    post({ call, type: "failed", message, audio: error instanceof UndecodableAudio });
  });
});

async function work(message: Exclude<Message, { readonly type: "destroy" }>): Promise<Answer> {
  const { call, id } = message;
  if (message.type === "make") {
    // A package that is missing shows before any audio is taken.
    await prepareEncoder(message.to);
    const transcoder = await makeTranscoder(message.from, message.to);
    transcoders.set(id, transcoder);
    return { call, type: "done", bytes: new Uint8Array(0), more: false };
  }
  const transcoder = transcoders.get(id);
  if (transcoder === undefined) throw new Error("the transcoder is gone");
  if (message.type === "end") transcoder.finish();
  else transcoder.give(message.bytes);
  const made = await step(id, transcoder);
  if (message.type === "end" && !made.more) destroy(id);
  return { call, type: "done", ...made };
}

async function step(id: number, transcoder: SlicedTranscoder): Promise<{ readonly bytes: Uint8Array; readonly more: boolean }> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  let workedMs = 0;
  let turnMs = 0;
  for (;;) {
    const beganMs = performance.now();
    const piece = await transcoder.slice();
    if (piece === null) return { bytes: joinBytes(pieces), more: false };
    // An encoder may give its own memory, which it writes to again.
    if (piece.length > 0) pieces.push(piece.slice());
    length += piece.length;
    const tookMs = performance.now() - beganMs;
    workedMs += tookMs;
    turnMs += tookMs;
    if (length >= stepBytesMax || workedMs >= stepMsMax) return { bytes: joinBytes(pieces), more: true };
    if (turnMs < turnMsMax) continue;
    turnMs = 0;
    if (performance.now() - postedMs > aliveMs) post({ type: "alive" });
    await new Promise((resolve) => setImmediate(resolve));
    if (transcoders.get(id) !== transcoder) throw new Error("the transcoder is gone");
  }
}

function post(answer: Answer): void {
  postedMs = performance.now();
  if (answer.type !== "done") return self.postMessage(answer, []);
  // A copy that owns its memory can be handed over instead of copied once more.
  const bytes = new Uint8Array(answer.bytes);
  self.postMessage({ ...answer, bytes }, [bytes.buffer]);
}

function destroy(id: number): void {
  transcoders.get(id)?.destroy();
  transcoders.delete(id);
}

function isMissingModule(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
}
