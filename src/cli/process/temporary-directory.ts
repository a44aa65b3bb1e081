import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * What is wrong with the directory for temporary files, in words; null where it can be written. Without it chats are served all the same,
 * so it does not stop a start, but whoever starts must learn of it before their first upload does.
 */
export function temporaryTrouble(directory = tmpdir()): string | null {
  let made: string | null = null;
  try {
    made = mkdtempSync(join(directory, "sluice-"));
    closeSync(openSync(join(made, "file"), "w", 0o600));
    return null;
  } catch (error) {
    const code = (error as { code?: string }).code ?? String(error);
    return (
      `the temporary directory ${directory} cannot be written (${code}): uploads, long audio, slow readers and the models of this machine need it\n` +
      "  set TMPDIR to a directory that this user can write, such as TMPDIR=/var/tmp, or mount one there"
    );
  } finally {
    if (made !== null) rmSync(made, { recursive: true, force: true });
  }
}
