import type { ComponentChildren } from "preact";
import { ApiError } from "../core/api.ts";

/** What went wrong, in the words of the admin API, and a way to try again. */
export function ErrorNote({ error, onRetry }: { readonly error: Error | null; readonly onRetry?: () => void }) {
  if (error === null) return null;
  const id = error instanceof ApiError ? error.requestId : null;
  return (
    <div class="note-box bad" role="alert">
      <div>
        <p>{error.message}</p>
        {id !== null && (
          <p class="small muted">
            In the log under <code>{id}</code>.
          </p>
        )}
      </div>
      {onRetry !== undefined && (
        <button type="button" class="button small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A page or list without content says what to do next. */
export function EmptyState({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Badge({ tone = "", children }: { readonly tone?: BadgeTone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

export type BadgeTone = "" | "good" | "warn" | "bad" | "accent";
