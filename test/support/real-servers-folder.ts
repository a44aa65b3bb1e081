import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Where scripts/real-servers.ts puts the servers and models it fetches, and the tests look for them. */
export function realServersFolder(): string {
  const named = process.env["SLUICE_REAL_SERVERS"];
  return named === undefined || named === "" ? join(homedir(), ".cache/sluice-real-servers") : resolve(named);
}
