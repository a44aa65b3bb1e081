import { ApiError, ask, hintSession } from "./api.ts";

/** The secret of a link that `sluice open` made; null if the address has none. */
export function linkSecret(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get("link");
}

/** Signs in with the link in the address, and removes it from there. A link that does not work leads to the sign-in. */
export async function enterByLink(): Promise<void> {
  const secret = linkSecret(window.location.hash);
  if (secret === null) return;
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  try {
    await ask("/login/link", { method: "POST", body: { secret } });
    hintSession(true);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}
