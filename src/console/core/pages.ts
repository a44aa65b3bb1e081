import { signal, type Signal } from "@preact/signals";

/** The way through a list of pages that only know their next one. */
export interface Trail {
  readonly cursor: Signal<string>;
  readonly isFirst: () => boolean;
  forward(next: string): void;
  back(): void;
  reset(): void;
}

export function makeTrail(): Trail {
  const cursor = signal("");
  let before: readonly string[] = [];
  return {
    cursor,
    isFirst: () => cursor.value === "",
    forward: (next) => {
      before = [...before, cursor.value];
      cursor.value = next;
    },
    back: () => {
      cursor.value = before.at(-1) ?? "";
      before = before.slice(0, -1);
    },
    reset: () => {
      before = [];
      cursor.value = "";
    },
  };
}
