import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Why the directory for temporary files cannot be used; null if it can. Chat works without it, so this is only a warning at the start.
 */
export function temporaryDirectoryProblem(directory = tmpdir()): string | null {
  let made: string | null = null;
  try {
    made = mkdtempSync(join(directory, "sluice-"));
    closeSync(openSync(join(made, "file"), "w", 0o600));
    return null;
  } catch (error) {
    const code = (error as { code?: string }).code ?? String(error);
    return (
      `the temporary directory ${directory} is not writable (${code}): uploads, long audio, slow clients and local models need it\n` +
      "  set TMPDIR to a directory that this user can write to, such as TMPDIR=/var/tmp"
    );
  } finally {
    if (made !== null) rmSync(made, { recursive: true, force: true });
  }
}
