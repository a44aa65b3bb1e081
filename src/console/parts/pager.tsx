import type { Trail } from "../core/pages.ts";

export function Pager({ trail, next }: { readonly trail: Trail; readonly next: string | null }) {
  if (trail.isFirst() && next === null) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" class="button small" disabled={trail.isFirst()} onClick={() => trail.back()}>
        Newer
      </button>
      <button type="button" class="button small" disabled={next === null} onClick={() => next !== null && trail.forward(next)}>
        Older
      </button>
    </nav>
  );
}
