/** Passes text on up to the first stop string. Text that may be the beginning of one is held back. */
export interface StopStrings {
  /** The text that may be shown now. `stopped`: a stop string was found, and nothing after it is shown. */
  push(text: string): { readonly text: string; readonly stopped: boolean };
  /** The text that was held back. */
  end(): string;
}

export function stopStringFilter(strings: readonly string[]): StopStrings {
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

/** The length of the longest suffix of the text that is a prefix of the string. */
function overlap(text: string, string: string): number {
  for (let length = Math.min(text.length, string.length - 1); length > 0; length--) {
    if (text.endsWith(string.slice(0, length))) return length;
  }
  return 0;
}
