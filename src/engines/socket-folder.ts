import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineKind } from "./command.ts";
import type { SocketPath } from "./engine-supervisor.ts";

/** A private directory for sockets, made when it is first needed. */
export class SocketFolder {
  private made: string | null = null;
  private sockets = 0;

  constructor(private readonly under: string) {}

  /** Returns a path that was never used before, so that a socket left by a dead engine does not matter. */
  newSocketPath(engine: EngineKind): SocketPath {
    // A cleaner of temporary files may have removed it.
    if (this.made === null || !existsSync(this.made)) this.made = make(this.under);
    this.sockets++;
    return { directory: this.made, socket: join(this.made, `${engine}-${this.sockets}`) };
  }

  remove(): void {
    if (this.made !== null) rmSync(this.made, { recursive: true, force: true });
    this.made = null;
  }
}

function make(under: string): string {
  const parent = [under, tmpdir()].find(isShort) ?? "/tmp";
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  // mkdtemp creates it with mode 0700.
  return mkdtempSync(join(parent, prefix));
}

const prefix = "sluice-";
/** The smallest limit of any system on the path of a unix socket (sun_path), without the final zero. */
const pathBytesMax = 103;
const longestName = `${prefix}XXXXXX/transcription-999999999`;

function isShort(parent: string): boolean {
  return Buffer.byteLength(join(parent, longestName)) <= pathBytesMax;
}
