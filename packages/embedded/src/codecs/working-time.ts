/**
 * Starts a clock that tells how long the work of this process has taken, in milliseconds: what passed while it had a processor, and
 * at least a tenth of all that passed. On a busy machine work takes longer without being stuck.
 */
export function startWorkingTime(nowMs: () => number = monotonicMs, cpuMs: () => number = processCpuMs): () => number {
  const beganMs = nowMs();
  const beganCpuMs = cpuMs();
  return () => {
    const passedMs = nowMs() - beganMs;
    // Several threads may have computed at the same time.
    return Math.max(passedMs * leastShare, Math.min(passedMs, cpuMs() - beganCpuMs));
  };
}

const leastShare = 0.1;

function monotonicMs(): number {
  return performance.now();
}

function processCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
