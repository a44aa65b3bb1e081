import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineKind } from "./command.ts";
import type { SocketPath } from "./engine-supervisor.ts";

/** A private directory for sockets, created on first use. */
export class SocketFolder {
  private path: string | null = null;
  private sockets = 0;

  constructor(private readonly parent: string) {}

  /** Returns a path that was never used before, so that a socket left by a dead engine does not matter. */
  newSocketPath(engine: EngineKind): SocketPath {
    // A cleaner of temporary files may have removed it.
    if (this.path === null || !existsSync(this.path)) this.path = make(this.parent);
    this.sockets++;
    return { directory: this.path, socket: join(this.path, `${engine}-${this.sockets}`) };
  }

  remove(): void {
    if (this.path !== null) rmSync(this.path, { recursive: true, force: true });
    this.path = null;
  }
}

function make(parent: string): string {
  const folder = [parent, tmpdir()].find(isShort) ?? "/tmp";
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // mkdtemp creates it with mode 0700.
  return mkdtempSync(join(folder, prefix));
}

const prefix = "sluice-";
/** The smallest limit of any system on the path of a unix socket (sun_path), without the final zero. */
const pathBytesMax = 103;
const longestName = `${prefix}XXXXXX/transcription-999999999`;

function isShort(parent: string): boolean {
  return Buffer.byteLength(join(parent, longestName)) <= pathBytesMax;
}
