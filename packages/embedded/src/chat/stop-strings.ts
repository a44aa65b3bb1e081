/** Lets text through up to the first of some strings. What may be the beginning of one waits for what follows. */
export interface StopStrings {
  /** What may be shown now. `stopped`: one of the strings was found, and nothing behind it will be shown. */
  push(text: string): { readonly text: string; readonly stopped: boolean };
  /** What waited in vain. */
  end(): string;
}

export function watchFor(strings: readonly string[]): StopStrings {
  let held = "";
  return {
    push(text) {
      held += text;
      const found = strings.map((string) => held.indexOf(string)).filter((index) => index >= 0);
      if (found.length > 0) {
        const shown = held.slice(0, Math.min(...found));
        held = "";
        return { text: shown, stopped: true };
      }
      const waiting = Math.max(0, ...strings.map((string) => overlap(held, string)));
      const shown = held.slice(0, held.length - waiting);
      held = held.slice(held.length - waiting);
      return { text: shown, stopped: false };
    },
    end() {
      const rest = held;
      held = "";
      return rest;
    },
  };
}

/** How many characters at the end of the text begin the string. */
function overlap(text: string, string: string): number {
  for (let length = Math.min(text.length, string.length - 1); length > 0; length--) {
    if (text.endsWith(string.slice(0, length))) return length;
  }
  return 0;
}
