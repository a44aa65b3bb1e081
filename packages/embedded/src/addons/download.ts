import { open, truncate } from "node:fs/promises";
import { fileBytes, writeAll } from "./files.ts";

export interface DownloadOptions {
  /** The size of the file. No more than that is written. */
  readonly bytes: number;
  readonly proxy: string | null;
  readonly signal: AbortSignal;
  /** Called with the size so far. */
  readonly onBytes: (bytes: number) => void;
}

/** Why a download failed. */
export interface DownloadError {
  readonly reason: string;
}

/**
 * Downloads the missing rest of a file, and resumes when a connection breaks. Returns `null` when the file has its full size; the
 * caller must verify its content. Throws if the disk fails.
 */
export async function download(url: string, path: string, options: DownloadOptions): Promise<DownloadError | null> {
  let lastError: DownloadError = { reason: "it was not requested" };
  for (let failures = 0; failures < failuresMax && !options.signal.aborted;) {
    const before = fileBytes(path);
    if (before === options.bytes) return null;
    const end = await attempt(url, path, options);
    if (end === null) return null;
    lastError = end;
    if (end.isFinal) return end;
    failures = fileBytes(path) > before ? 0 : failures + 1;
    await pause(pauseMs * (failures + 1), options.signal);
  }
  return lastError;
}

/** How many attempts in a row may bring no data. */
const failuresMax = 3;
const pauseMs = 300;
const firstByteMs = 20_000;
const idleMs = 30_000;

interface AttemptError extends DownloadError {
  /** A retry would not help. */
  readonly isFinal: boolean;
}

async function attempt(url: string, path: string, { bytes, proxy, signal, onBytes }: DownloadOptions): Promise<AttemptError | null> {
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
      // The server has nothing beyond our size, so that what we have is not the beginning of this file.
      if (response.status === 416) await truncate(path, 0);
      return {
        reason: `HTTP status ${response.status}`,
        isFinal: response.status < 500 && response.status !== 416 && response.status !== 429,
      };
    }
    const resumes = response.status === 206 && response.headers.get("content-range")?.startsWith(`bytes ${from}-`) === true;
    const file = await open(path, resumes ? "a" : "w");
    try {
      let have = resumes ? from : 0;
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
    if (isDiskError(error)) throw error;
    if (stalled.signal.aborted) return { reason: "the connection stalled", isFinal: false };
    return { reason: error instanceof Error ? error.message : String(error), isFinal: false };
  } finally {
    clearTimeout(timer);
  }
}

/** Errors of the file system have the name of the failed system call. */
export function isDiskError(error: unknown): error is Error & { readonly code: string } {
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
