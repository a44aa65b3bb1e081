import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

/** Who gives a command, for the audit log. It is read from the system's list of users, because the environment can be changed. */
export function userName(uid = process.getuid?.() ?? -1, users = "/etc/passwd"): string {
  try {
    const entries = readFileSync(users, "utf8").split("\n");
    const name = entries.map((entry) => entry.split(":")).find(([, , id]) => id === String(uid))?.[0];
    if (name !== undefined && name !== "") return name;
  } catch {
    // Not every system has this file.
  }
  return knownName() ?? `user ${uid}`;
}

/** What the system knows from elsewhere. It throws for a user without a home, as in a container that runs as any number. */
function knownName(): string | null {
  try {
    const { username } = userInfo();
    return username === "unknown" || username === "" ? null : username;
  } catch {
    return null;
  }
}
