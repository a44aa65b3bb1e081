import { idleShare, processorTimes, stolenShare, stolenShareMax, type ProcessorTimes } from "../scripts/test-machine.ts";

/** A tenth of two processors is a fifth of what one process under load takes. */
const busyShareMax = 0.1;
const windowMs = 5_000;

/**
 * Why figures that are measured from now on would say nothing; null on a quiet machine, for which it waits for as long as it may. A load
 * average would not do: it remembers for minutes what has ended.
 */
export async function untilQuiet(withinSeconds: number, tell: (what: string) => void): Promise<string | null> {
  const deadlineMs = performance.now() + withinSeconds * 1_000;
  for (;;) {
    const before = processorTimes();
    await Bun.sleep(windowMs);
    const why = busyBefore(before, processorTimes());
    if (why === null || performance.now() + windowMs > deadlineMs) return why;
    tell(`${why}: waiting for up to ${Math.ceil((deadlineMs - performance.now()) / 1_000)} s more until it is quiet`);
  }
}

/** Time that the host took counts as well. */
export function busyBefore(before: ProcessorTimes | null, after: ProcessorTimes | null): string | null {
  if (before === null || after === null) return null;
  const busy = 1 - idleShare(before, after);
  return busy > busyShareMax ? `the machine was busy before the bench began, with ${percent(busy)} of its processors` : null;
}

/** A host takes nothing from a virtual machine that is at rest, so that it is seen only while there is load. */
export function stolenDuring(before: ProcessorTimes | null, after: ProcessorTimes | null): string | null {
  const stolen = stolenShare(before, after);
  return stolen > stolenShareMax ? `the host took ${percent(stolen)} of the processors meanwhile` : null;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
