import { StorageTrouble } from "../gateway/storage.ts";

/** Names of anything; longer ones are nobody's. */
export const nameCharactersMax = 200;
export const noteCharactersMax = 10_000;
export const searchCharactersMax = 200;
/** Rows of one page. */
const pageRowsMax = 200;

/** Whether a row could have this name. Text with a NUL is refused by one engine and cut by the other, so it never gets there. */
export function mayBeName(text: string): boolean {
  return text.length > 0 && text.length <= nameCharactersMax && !text.includes("\0");
}

export function checkName(what: string, text: string): void {
  if (mayBeName(text)) return;
  throw new StorageTrouble("invalid", `${what} must have 1 to ${nameCharactersMax} characters, without NUL.`);
}

export function checkText(what: string, text: string | null, charactersMax: number): void {
  if (text === null || (text.length <= charactersMax && !text.includes("\0"))) return;
  throw new StorageTrouble("invalid", `${what} must have at most ${charactersMax} characters, without NUL.`);
}

/** Of text that somebody else chose and that must not stop us: what can be kept of it. */
export function keepable(text: string, charactersMax: number): string {
  return text.slice(0, charactersMax).replaceAll("\0", "").toWellFormed();
}

/** A pattern for `like … escape '!'` that finds the term wherever it stands, and takes each of its characters for itself. */
export function containing(term: string): string {
  return `%${term.replace(/[!%_]/g, "!$&")}%`;
}

export function pageRows(limit: number): number {
  return Number.isFinite(limit) ? Math.max(1, Math.min(pageRowsMax, Math.floor(limit))) : pageRowsMax;
}
