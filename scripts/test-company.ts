import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Which test files bear company. One that has to do with time, with memory or with descriptors has the machine to itself:
 * what another file does beside it would be measured with it. It is told by its words, and by those of the support it
 * imports, so that nobody keeps a list. Where such words claim nothing that a busy machine could break, a line of that
 * file says so, and why: `// Bears company: …`.
 */
export function bearsCompany(file: string, read: (file: string) => string = readText): boolean {
  const seen = new Set<string>();
  const bears = (path: string): boolean => {
    if (seen.has(path)) return true;
    seen.add(path);
    const text = read(path);
    if (speaksOfTime(text) && !saysWhy(text)) return false;
    return supportOf(path, text).every(bears);
  };
  return bears(resolve(file));
}

/**
 * Which test files may have one of their own kind beside them: their times are real, but they work so little meanwhile that two of
 * them leave the machine idle. A line of the file says so, and why: `// Mostly waits: …`.
 */
export function mostlyWaits(file: string, read: (file: string) => string = readText): boolean {
  return /^\/\/ Mostly waits: \S/m.test(read(file));
}

/**
 * Which test files take long and prove little that no other file proves: `npm test` leaves them out, `npm run test:slow` runs them,
 * and so does CI while there is time. A line of the file says so, and why: `// Slow: …`.
 */
export function isSlow(file: string, read: (file: string) => string = readText): boolean {
  return /^\/\/ Slow: \S/m.test(read(file));
}

export function speaksOfTime(text: string): boolean {
  return measures.test(text);
}

export function saysWhy(text: string): boolean {
  return /^\/\/ Bears company: \S/m.test(text);
}

function supportOf(path: string, text: string): readonly string[] {
  const imported = [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, name]) => resolve(dirname(path), name!));
  return imported.filter((other) => other.includes("/test/"));
}

function readText(file: string): string {
  return readFileSync(file, "utf8");
}

/** Clocks, timers, the sizes of a process, and settings of the product that are less than a second. */
const measures =
  /\b(performance\.now|setTimeout|setInterval|Bun\.sleep|Bun\.nanoseconds|hrtime|timeout\(|cpuUsage|memoryUsage|VmHWM|VmRSS|limit_in_bytes|rss\(|fds\()|"[1-9]\d*ms"/;
