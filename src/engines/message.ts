/** What an engine tells of itself, on a line of its own. */
export interface Message {
  readonly event: string;
  /** Its own words on what went wrong, on one line. */
  readonly error: string | null;
}

/** The message on a line, or null where the line is anything else. Nothing but its event and its error is taken from it. */
export function messageIn(line: string): Message | null {
  if (!line.includes('"event"')) return null;
  try {
    const found = JSON.parse(line) as { readonly event?: unknown; readonly error?: unknown } | null;
    if (typeof found?.event !== "string" || !name.test(found.event)) return null;
    return { event: found.event, error: typeof found.error === "string" ? oneLine(found.error) : null };
  } catch {
    return null;
  }
}

function oneLine(text: string): string {
  return text.slice(0, errorMax).toWellFormed().replace(unprintable, " ").trim();
}

const name = /^[a-z_]{1,30}$/;
const errorMax = 1_000;
const unprintable = /[\p{Cc}\p{Cf}\s]+/gu;
