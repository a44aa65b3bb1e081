import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** How the disk fails: every sync with EIO, or every change as on a file system that has become read-only. */
export type DiskFault = "eio" | "erofs";

/** A folder in which the disk can be made to fail for one program, while it runs. */
export class FaultyDisk implements Disposable {
  readonly folder: string;
  private readonly control: string;

  private constructor(
    private readonly home: string,
    private readonly binary: string,
  ) {
    this.folder = join(home, "data");
    this.control = join(home, "control");
  }

  /** Or in words why there can be none here. */
  static make(): FaultyDisk | { readonly skipped: string } {
    const home = mkdtempSync(join(tmpdir(), "sluice-faulty-disk-"));
    const disk = new FaultyDisk(home, join(home, "disk-faults"));
    const skipped = disk.tried();
    if (skipped === null) return disk;
    disk[Symbol.dispose]();
    return { skipped };
  }

  /** What the program is to be started with, before its own name. */
  get command(): readonly string[] {
    return [this.binary, this.control, this.folder];
  }

  fail(fault: DiskFault): void {
    writeFileSync(this.control, fault);
  }

  restore(): void {
    rmSync(this.control, { force: true });
  }

  [Symbol.dispose](): void {
    rmSync(this.home, { recursive: true, force: true });
  }

  private tried(): string | null {
    if (Bun.which("cc") === null) return "there is no C compiler";
    const built = ran(["cc", "-O1", "-o", this.binary, resolve(import.meta.dir, "disk-faults.c")]);
    if (built !== 0) return "the program that makes the disk fail cannot be compiled";
    this.fail("erofs");
    const refused = ran([...this.command, "mkdir", this.folder]);
    this.restore();
    const made = ran([...this.command, "mkdir", this.folder]);
    return refused !== 0 && made === 0 ? null : "this system lets nobody answer for its calls";
  }
}

function ran(command: readonly string[]): number {
  return Bun.spawnSync([...command], { stdout: "ignore", stderr: "ignore", timeout: 55_000 }).exitCode;
}
