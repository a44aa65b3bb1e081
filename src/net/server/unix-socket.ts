import { lstatSync, unlinkSync } from "node:fs";

/**
 * Removes the socket that a killed process has left at a path, which would prevent the next one from listening. A socket that
 * somebody listens on stays, and so does a file of any other kind: then it throws.
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw socketError("ENOTSOCK", path);
  if (await answers(path)) throw socketError("EADDRINUSE", path);
  unlinkSync(path);
}

/** Whether somebody listens. Only a refused connection shows that nobody does. */
async function answers(path: string): Promise<boolean> {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data() {} } });
    socket.terminate();
    return true;
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (code === "ECONNREFUSED") return false;
    // The file was removed in the meantime.
    if (code === "ENOENT") return false;
    throw error;
  }
}

function socketError(code: string, path: string): Error {
  return Object.assign(new Error(`cannot listen on ${path}`), { code });
}

/** Does something while files are created with exactly this mode. */
export function withMode<T>(mode: number, make: () => T): T {
  const before = process.umask(0o777 & ~mode);
  try {
    return make();
  } finally {
    process.umask(before);
  }
}
