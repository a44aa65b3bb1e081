import { closeSync, constants, fchownSync, fstatSync, openSync, statSync } from "node:fs";

/**
 * Gives a file that root has made to the owner of another path. Commands are run with sudo while the gateway has a user of its own, which
 * cannot use the files of root. Nobody else may give files away, or has to. The file lies where that user may put links, which are left
 * alone.
 */
export function giveToOwnerOf(other: string, file: string): void {
  if (process.geteuid?.() !== 0) return;
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const { uid, gid } = statSync(other);
    if (fstatSync(descriptor).nlink === 1) fchownSync(descriptor, uid, gid);
  } catch {
    // A container may have taken this right away, and not every file system has owners.
  } finally {
    closeSync(descriptor);
  }
}
