import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
export const themes: readonly Theme[] = ["auto", "light", "dark"];
const storageKey = "sluice.theme";

export const theme = signal<Theme>("auto");
/** Whether the system wants dark colours, which `auto` follows while the page is open. */
export const isSystemDark = signal(false);

/** Private windows may refuse storage, and then the choice lasts as long as the page. */
export function restoreTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  isSystemDark.value = dark.matches;
  dark.addEventListener("change", ({ matches }) => (isSystemDark.value = matches));
  try {
    const kept = localStorage.getItem(storageKey);
    setTheme(themes.find((name) => name === kept) ?? "auto");
  } catch {
    setTheme("auto");
  }
}

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  document.documentElement.dataset["theme"] = chosen;
  try {
    localStorage.setItem(storageKey, chosen);
  } catch {
    // As above.
  }
}
