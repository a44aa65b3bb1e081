import type { Cancellation } from "../cancellation.ts";
import type { Ports } from "../ports.ts";

/** Waits for `ms`, or until the call is cancelled. */
export function pause(ms: number, cancellation: Cancellation, { after }: Pick<Ports, "after">): Promise<"paused"> {
  return new Promise((resolve) => {
    const wake = (): void => {
      disarm();
      unlisten();
      resolve("paused");
    };
    let unlisten = (): void => {};
    const disarm = after(ms, wake);
    unlisten = cancellation.listen(wake);
  });
}
