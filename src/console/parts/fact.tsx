import type { ComponentChildren } from "preact";

/** One line of a list of facts. */
export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A card with one figure, and what it means. */
export function Figure({
  name,
  value,
  note,
  isBad = false,
}: {
  readonly name: string;
  readonly value: string;
  readonly note: string;
  readonly isBad?: boolean;
}) {
  return (
    <div class="card figure">
      <dt>{name}</dt>
      <dd class={isBad ? "value bad" : "value"}>{value}</dd>
      <dd class="note">{note}</dd>
    </div>
  );
}
