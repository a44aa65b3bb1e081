import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

/** Who gives a command, for the audit trail: by the system's list of users, because the environment says what it is told to. */
export function userName(): string {
  const { uid, username } = userInfo();
  try {
    const entries = readFileSync("/etc/passwd", "utf8").split("\n");
    const name = entries.map((entry) => entry.split(":")).find(([, , id]) => id === String(uid))?.[0];
    if (name !== undefined && name !== "") return name;
  } catch {
    // Not every system has one.
  }
  return username === "unknown" ? `user ${uid}` : username;
}
