import { slowed } from "./slowed.ts";

/** Resolves as soon as the claim holds; throws, with what was awaited, when it does not within the time. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  const beganMs = performance.now();
  while (!(await holds())) {
    const tookMs = performance.now() - beganMs;
    if (tookMs > withinMs && tookMs > slowed(withinMs)) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

const pollMs = 4;
