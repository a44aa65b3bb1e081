import type { Tool } from "./conversation.ts";
import type { JsonObject } from "../json.ts";

/**
 * A custom tool takes free text. For an upstream that knows only functions, it becomes a function with one string, `input`, and the
 * text is unwrapped from the arguments of the call.
 */
export const customParameters: JsonObject = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

export function customDescription({ description, custom }: Tool): string | null {
  const format = custom?.format ?? null;
  if (format === null) return description;
  return `${description === null ? "" : `${description}\n\n`}The input has to match this format:\n${format}`;
}

export function wrapCustomInput(input: string): string {
  return JSON.stringify({ input });
}

/** The text of complete arguments. Arguments of another shape are the text themselves: a model may have ignored the schema. */
export function unwrapCustomInput(args: string): string {
  try {
    const parsed = JSON.parse(args) as { readonly input?: unknown } | null;
    return typeof parsed?.input === "string" ? parsed.input : args;
  } catch {
    return args;
  }
}

/** Unwraps the text while the arguments arrive: `{"input":"` and what follows, unescaped, until the string closes. */
export class CustomInputReader {
  private pending = "";
  private state: "before" | "inside" | "after" | "raw" = "before";

  /** The text that these arguments add. */
  push(args: string): string {
    if (this.state === "after") return "";
    this.pending += args;
    if (this.state === "before") this.open();
    if (this.state === "raw") return this.take(this.pending.length);
    return this.state === "inside" ? this.unescaped() : "";
  }

  /** The call is complete: what was held back because it was not understood. */
  close(): string {
    if (this.state !== "before") return "";
    return unwrapCustomInput(this.take(this.pending.length));
  }

  private open(): void {
    const opening = /^\s*\{\s*"input"\s*:\s*"/.exec(this.pending);
    if (opening !== null) {
      this.pending = this.pending.slice(opening[0].length);
      this.state = "inside";
    } else if (!/^\s*(\{\s*("(i(n(p(u(t("(\s*(:\s*)?)?)?)?)?)?)?)?)?)?$/.test(this.pending) && !/^\s*\{/.test(this.pending)) {
      this.state = "raw";
    }
  }

  private unescaped(): string {
    const { pending } = this;
    let at = 0;
    while (at < pending.length && pending[at] !== '"') {
      const length = pending[at] !== "\\" ? 1 : pending[at + 1] === "u" ? 6 : 2;
      if (at + length > pending.length) break;
      at += length;
    }
    // The halves of a character that is escaped as two stay together.
    const whole = /\\u[dD][89abAB][0-9a-fA-F]{2}$/.test(pending.slice(0, at)) && pending[at] !== '"' ? at - 6 : at;
    const closed = pending[at] === '"';
    const text = this.take(whole);
    if (closed) this.state = "after";
    try {
      return JSON.parse(`"${escapeControls(text)}"`) as string;
    } catch {
      return text;
    }
  }

  private take(length: number): string {
    const taken = this.pending.slice(0, length);
    this.pending = this.pending.slice(length);
    return taken;
  }
}

/** Some models write line breaks into the string as they are, which JSON does not allow. */
function escapeControls(text: string): string {
  let escaped = "";
  for (const character of text) {
    const code = character.charCodeAt(0);
    escaped += code < 0x20 ? `\\u${code.toString(16).padStart(4, "0")}` : character;
  }
  return escaped;
}
