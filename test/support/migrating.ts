import { join } from "node:path";

/** A process that migrates a store, to be one of several or to be killed in the middle (`migrating-process.ts`). */
export function startMigrating(store: string, dataDir: string, what: string): MigratingProcess {
  return new MigratingProcess(store, dataDir, what);
}

export class MigratingProcess {
  readonly child: Bun.Subprocess<"ignore", "pipe", "pipe">;

  constructor(store: string, dataDir: string, what: string) {
    const script = join(import.meta.dir, "migrating-process.ts");
    this.child = Bun.spawn({ cmd: [process.execPath, script, store, dataDir, what], stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  }

  async firstLine(): Promise<string> {
    let text = "";
    for await (const bytes of this.child.stdout) {
      text += new TextDecoder().decode(bytes);
      if (text.includes("\n")) break;
    }
    return text.split("\n", 1)[0] ?? "";
  }

  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.child.exited;
  }
}
