import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

/** Who gives a command, for the audit log. It is read from the system's list of users, because the environment can be changed. */
export function userName(): string {
  const { uid, username } = userInfo();
  try {
    const entries = readFileSync("/etc/passwd", "utf8").split("\n");
    const name = entries.map((entry) => entry.split(":")).find(([, , id]) => id === String(uid))?.[0];
    if (name !== undefined && name !== "") return name;
  } catch {
    // Not every system has this file.
  }
  return username === "unknown" ? `user ${uid}` : username;
}
