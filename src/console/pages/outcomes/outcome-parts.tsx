/** Old calls were not counted like this, and that must not look like success. */
export function CountedFrom({ at, earlier }: { readonly at: string | null; readonly earlier: string }) {
  return <p class="muted small">{at === null ? "Nothing is counted yet." : `Counted since ${at.slice(0, 10)} (UTC). ${earlier}`}</p>;
}
