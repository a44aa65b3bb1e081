import { StorageError } from "../gateway/storage.ts";

/** The longest name of a key, a model, a channel or anything else. */
export const nameCharactersMax = 200;
export const noteCharactersMax = 10_000;
export const searchCharactersMax = 200;
/** The most rows of one page. */
const pageRowsMax = 200;

/** Whether a row could have this name. NUL is excluded because PostgreSQL rejects it in text and SQLite truncates at it. */
export function isValidName(text: string): boolean {
  return text.length > 0 && text.length <= nameCharactersMax && !text.includes("\0");
}

export function checkName(what: string, text: string): void {
  if (isValidName(text)) return;
  throw new StorageError("invalid", `${what} must have 1 to ${nameCharactersMax} characters, without NUL.`);
}

export function checkText(what: string, text: string | null, charactersMax: number): void {
  if (text === null || (text.length <= charactersMax && !text.includes("\0"))) return;
  throw new StorageError("invalid", `${what} must have at most ${charactersMax} characters, without NUL.`);
}

/** Text from outside that must not make a statement fail: shortened, and without characters that a database rejects. */
export function storableText(text: string, charactersMax: number): string {
  return text.slice(0, charactersMax).replaceAll("\0", "").toWellFormed();
}

/** A pattern for `like … escape '!'` that matches the literal term anywhere in a text. */
export function likePattern(term: string): string {
  return `%${term.replace(/[!%_]/g, "!$&")}%`;
}

export function pageRows(limit: number): number {
  return Number.isFinite(limit) ? Math.max(1, Math.min(pageRowsMax, Math.floor(limit))) : pageRowsMax;
}
