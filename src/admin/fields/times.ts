import { z } from "zod";

/** How the admin API shows a moment: ISO 8601 in UTC, in fields called `…_at`. */
export const moment = z.iso.datetime();

export function momentOf(ms: number): string {
  return new Date(ms).toISOString();
}

export function momentOrNull(ms: number | null): string | null {
  return ms === null ? null : momentOf(ms);
}
