import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AccountStorage } from "../../gateway/storage.ts";

export const bootstrapLifeMs = 60 * 60_000;

/**
 * While there is no account, writes a token to a file that only its owner can read. With this token the first account can be created
 * within an hour. Each start replaces it, so only one of several processes with the same folder may call this.
 */
export async function prepareBootstrap(needs: {
  readonly dataDir: string;
  readonly accounts: Pick<AccountStorage, "count" | "setBootstrap">;
  readonly digest: (token: string) => string;
  readonly wallMs: () => number;
  readonly random: (count: number) => Uint8Array;
}): Promise<{ readonly path: string } | null> {
  const path = join(needs.dataDir, "bootstrap-token");
  if ((await needs.accounts.count()) > 0) {
    await removeBootstrap(path);
    return null;
  }
  const token = Buffer.from(needs.random(32)).toString("base64url");
  // The store comes first: if writing the file fails, nobody has the token. The file is new, because others may be able to read an old one.
  await needs.accounts.setBootstrap(needs.digest(token), needs.wallMs() + bootstrapLifeMs);
  await mkdir(needs.dataDir, { recursive: true, mode: 0o700 });
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  await writeFile(draft, `${token}\n`, { mode: 0o600, flag: "wx" });
  await chmod(draft, 0o600);
  await rename(draft, path);
  return { path };
}

/** Its token no longer works, so a file that cannot be removed does no harm. */
export async function removeBootstrap(path: string): Promise<void> {
  await rm(path, { force: true }).catch(() => undefined);
}
