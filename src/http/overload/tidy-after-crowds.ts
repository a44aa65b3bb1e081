import { Crowd } from "../../gateway/crowd.ts";

/**
 * Has the runtime look for memory when a crowd of calls has left. That takes 20 to 90 ms, in which few are left to wait. The timer
 * does not keep the process alive.
 */
export function tidyAfterCrowds(calls: { readonly size: number }): ReturnType<typeof setInterval> {
  const crowd = new Crowd();
  const timer = setInterval(() => {
    if (crowd.hasLeft(calls.size)) Bun.gc(true);
  }, lookMs);
  timer.unref();
  return timer;
}

const lookMs = 2_000;
