import { AdminError } from "./admin-error.ts";
import type { EventResult } from "./route.ts";
import { errorResponse } from "./respond.ts";

/** Whether the caller may still read: a session may end while its page is open. */
export type StillAllowed = () => Promise<boolean>;

/** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), until the reader leaves or may no longer read. */
export function eventStream(result: EventResult, headers: Headers, signal: AbortSignal, stillAllowed: StillAllowed): Response {
  const encoder = new TextEncoder();
  let stop: (() => void) | AdminError = () => undefined;
  let end = (): void => undefined;
  const stream = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        let over = false;
        let leftOut = 0;
        const write = (text: string): void => {
          if (!over) controller.enqueue(encoder.encode(text));
        };
        const beat = setInterval(() => {
          write(": still here\n\n");
          stillAllowed().then(
            (allowed) => allowed || end(),
            // The store cannot be asked now; the next beat asks again.
            () => undefined,
          );
        }, beatMs);
        end = () => {
          if (over) return;
          over = true;
          clearInterval(beat);
          if (typeof stop === "function") stop();
          try {
            controller.close();
          } catch {
            // The reader has left.
          }
        };
        signal.addEventListener("abort", end, { once: true });
        write("retry: 2000\n\n");
        stop = result.start((data) => {
          // A reader that takes nothing misses events instead of filling the memory.
          if ((controller.desiredSize ?? 0) <= 0) {
            leftOut += 1;
            if (leftOut > leftOutMax) end();
            return;
          }
          write(`${leftOut === 0 ? "" : `event: missed\ndata: ${leftOut}\n\n`}data: ${data}\n\n`);
          leftOut = 0;
        });
        if (stop instanceof AdminError) end();
      },
      cancel: () => end(),
    },
    { highWaterMark: waitingBytesMax, size: (chunk) => chunk?.byteLength ?? 0 },
  );
  if (stop instanceof AdminError) return errorResponse(stop, headers);
  headers.set("content-type", "text/event-stream; charset=utf-8");
  return new Response(stream, { headers });
}

const beatMs = 15_000;
const waitingBytesMax = 1024 * 1024;
/** One that still takes nothing has gone without a word, and its place is for another. */
const leftOutMax = 240;
