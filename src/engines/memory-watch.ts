import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import type { EngineKind } from "./command.ts";

/** Polls the resident memory of a process and reports once when it is too large. Without /proc it never reports. */
export function watchMemory(pid: number, bytesMax: number, onTooMuch: (bytes: number) => void): { stop(): void } {
  const timer = setInterval(() => {
    const bytes = residentBytes(pid);
    if (bytes <= bytesMax) return;
    clearInterval(timer);
    onTooMuch(bytes);
  }, pollMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/**
 * The memory limit of an engine. A chat model is chosen by the operator and may have any size; the others are known and
 * use a quarter of this limit.
 */
export function engineMemoryMax(engine: EngineKind): number {
  return engine === "chat" ? Infinity : Math.min(4 * 1024 ** 3, totalmem() * 0.75);
}

const pollMs = 250;

function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
