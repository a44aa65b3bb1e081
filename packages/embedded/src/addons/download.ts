import { open, truncate } from "node:fs/promises";
import { fileBytes } from "./file-hash.ts";
import { writeAll } from "./write-all.ts";

export interface DownloadOptions {
  /** What the whole file has. Not a byte more is written. */
  readonly bytes: number;
  readonly proxy: string | null;
  readonly signal: AbortSignal;
  /** Told what the file has, whenever that changes. */
  readonly onBytes: (bytes: number) => void;
}

/** Why the rest did not come. */
export interface DownloadFault {
  readonly reason: string;
}

/**
 * Fetches what a file lacks, and goes on where a connection broke. `null` when the file has its size; what it holds is
 * for the caller to check. Throws when the disk fails.
 */
export async function download(url: string, path: string, options: DownloadOptions): Promise<DownloadFault | null> {
  let fault: DownloadFault = { reason: "it was not asked for" };
  for (let inVain = 0; inVain < inVainMax && !options.signal.aborted;) {
    const before = fileBytes(path);
    if (before === options.bytes) return null;
    const end = await once(url, path, options);
    if (end === null) return null;
    fault = end;
    if (end.isFinal) return end;
    inVain = fileBytes(path) > before ? 0 : inVain + 1;
    await pause(pauseMs * (inVain + 1), options.signal);
  }
  return fault;
}

/** How often in a row nothing may come of it. */
const inVainMax = 3;
const pauseMs = 300;
const firstByteMs = 20_000;
const idleMs = 30_000;

interface End extends DownloadFault {
  /** Asking again would not help. */
  readonly isFinal: boolean;
}

async function once(url: string, path: string, { bytes, proxy, signal, onBytes }: DownloadOptions): Promise<End | null> {
  const stalled = new AbortController();
  let timer = setTimeout(() => stalled.abort(), firstByteMs);
  const from = fileBytes(path);
  try {
    const response = await fetch(url, {
      headers: { "accept-encoding": "identity", ...(from > 0 ? { range: `bytes=${from}-` } : {}) },
      signal: AbortSignal.any([signal, stalled.signal]),
      ...(proxy === null ? {} : { proxy }),
    });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      // Whatever we have, there is nothing behind it: it is not a beginning of this file.
      if (response.status === 416) await truncate(path, 0);
      return {
        reason: `HTTP status ${response.status}`,
        isFinal: response.status < 500 && response.status !== 416 && response.status !== 429,
      };
    }
    const goesOn = response.status === 206 && response.headers.get("content-range")?.startsWith(`bytes ${from}-`) === true;
    const file = await open(path, goesOn ? "a" : "w");
    try {
      let have = goesOn ? from : 0;
      for await (const chunk of response.body) {
        clearTimeout(timer);
        timer = setTimeout(() => stalled.abort(), idleMs);
        if (have + chunk.length > bytes) return { reason: `more than the ${bytes} bytes it should have`, isFinal: true };
        await writeAll(file, chunk);
        have += chunk.length;
        onBytes(have);
      }
      return have === bytes ? null : { reason: `the connection ended after ${have} of ${bytes} bytes`, isFinal: false };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isOfDisk(error)) throw error;
    if (stalled.signal.aborted) return { reason: "nothing came any more", isFinal: false };
    return { reason: error instanceof Error ? error.message : String(error), isFinal: false };
  } finally {
    clearTimeout(timer);
  }
}

/** Errors of the file system name the system call that failed. */
export function isOfDisk(error: unknown): error is Error & { readonly code: string } {
  return (
    error instanceof Error &&
    "syscall" in error &&
    "code" in error &&
    ["open", "write", "ftruncate", "truncate", "close"].includes(String(error.syscall))
  );
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
