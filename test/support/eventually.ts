import { slowed } from "./slowed.ts";

/** Resolves as soon as the claim holds; throws, with what was awaited, when it does not within the time. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  const beganMs = performance.now();
  while (!(await holds())) {
    const tookMs = performance.now() - beganMs;
    if (tookMs > withinMs && tookMs > slowed(withinMs)) throw new Error(`not within ${withinMs} ms: ${what}`);
    // Whoever has waited for long is asked less often: a claim may read a whole log or a store, and others need the processor.
    const pollMs = Math.min(pollMsMax, Math.max(pollMsMin, tookMs / 20));
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

const pollMsMin = 4;
const pollMsMax = 100;
