import type { LogLevel, LogLine } from "./log.ts";

/** A line of the log for a person at a terminal: the time, the level, the event, and the fields that have a value. */
export function logText(line: LogLine, isColoured: boolean): string {
  const { time, level, event, ...fields } = line;
  const shown = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  const clock = time.slice(timeFrom, timeTo);
  const head = isColoured
    ? `${dim}${clock}${plain} ${colours[level]}${level.padEnd(5)}${plain} ${event}`
    : `${clock} ${level.padEnd(5)} ${event}`;
  return [head, ...shown.map(([name, value]) => `${isColoured ? `${dim}${name}=${plain}` : `${name}=`}${valueText(value)}`)].join(" ");
}

/** What is not a plain word is quoted, with its control characters escaped: nobody can write a second line, or move the cursor. */
function valueText(value: unknown): string {
  if (typeof value === "string" && plainWord.test(value)) return value;
  return (JSON.stringify(value) ?? "").replaceAll(hidden, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const plainWord = /^[\w.:/@+*-]{1,200}$/;
/** JSON escapes the control characters of ASCII, but not DEL, those of Latin-1, or the ones that turn the direction of writing. */
const hidden = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Of `2026-01-01T12:34:56.789Z`, the time of day. */
const timeFrom = 11;
const timeTo = 23;

const dim = "\u001b[2m";
const plain = "\u001b[0m";
const colours: { readonly [L in LogLevel]: string } = { debug: "\u001b[2m", info: "\u001b[32m", warn: "\u001b[33m", error: "\u001b[31m" };

/** How lines are written. `auto`: for a person where standard output is a terminal, and as JSON everywhere else. */
export type LogFormat = "auto" | "json" | "text";

export function lineWriter(
  format: LogFormat,
  terminal: { readonly isTerminal: boolean; readonly isColoured: boolean },
): (line: LogLine) => string {
  const isText = format === "text" || (format === "auto" && terminal.isTerminal);
  return isText ? (line) => logText(line, terminal.isColoured && terminal.isTerminal) : JSON.stringify;
}
