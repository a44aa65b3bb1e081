/** Old calls were not counted like this, and that must not look like success. */
export function CountedFrom({ at, earlier }: { readonly at: string | null; readonly earlier: string }) {
  return <p class="muted small">{at === null ? "Nothing is counted yet." : `Counted since ${at.slice(0, 10)} (UTC). ${earlier}`}</p>;
}

/** A figure, and what it means. */
export function Figure({ name, value, note }: { readonly name: string; readonly value: string; readonly note: string }) {
  return (
    <div class="card figure">
      <dt>{name}</dt>
      <dd class="value">{value}</dd>
      <dd class="note">{note}</dd>
    </div>
  );
}
