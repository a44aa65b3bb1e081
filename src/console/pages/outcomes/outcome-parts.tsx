/** Old calls were not counted, and that must not look like success. */
export function CountedFrom({ at }: { readonly at: string | null }) {
  return (
    <p class="muted small">
      {at === null
        ? "Nothing is counted yet."
        : `This is counted since ${at.slice(0, 10)} (UTC). Calls from before are in the usage, but have zeros here.`}
    </p>
  );
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
