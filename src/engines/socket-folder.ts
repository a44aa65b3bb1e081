import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine } from "./engine.ts";
import type { SocketPlace } from "./keeper.ts";

/** A folder of our own for sockets, made when it is first needed. Nobody else can enter it. */
export class SocketFolder {
  private made: string | null = null;
  private sockets = 0;

  constructor(private readonly under: string) {}

  /** A path that was never given before: what is left of a dead engine is in nobody's way. */
  place(engine: Engine): SocketPlace {
    // Whoever cleans up behind temporary files may have taken it away.
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
  // The system gives it the mode 0700.
  return mkdtempSync(join(parent, prefix));
}

const prefix = "sluice-";
/** The shortest that any system allows a socket's path to be, without its final zero. */
const pathBytesMax = 103;
const longestName = `${prefix}XXXXXX/transcription-999999999`;

function isShort(parent: string): boolean {
  return Buffer.byteLength(join(parent, longestName)) <= pathBytesMax;
}
