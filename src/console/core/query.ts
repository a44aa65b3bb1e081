import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { apiUrl, ask, signedIn, type ApiError, type ApiRequest } from "./api.ts";

/** An answer of the admin API that a page shows. While it is asked for again the last one stays, so that nothing jumps. */
export interface LoadedAnswer<Answer> {
  readonly data: Signal<Answer | null>;
  readonly error: Signal<ApiError | null>;
  readonly busy: Signal<boolean>;
  reload(): void;
}

/** Several answers that are shown together: the first refusal, and another try of all that were refused. */
export function troubleOf(...answers: readonly Pick<LoadedAnswer<unknown>, "error" | "reload">[]): {
  readonly error: ApiError | null;
  readonly onRetry: () => void;
} {
  const failed = answers.filter(({ error }) => error.value !== null);
  return {
    error: failed[0]?.error.value ?? null,
    onRetry: () => {
      for (const answer of failed) answer.reload();
    },
  };
}

export interface LoadOptions {
  /** Ask again this often while the page is visible. */
  readonly everyMs?: number;
  /** Do not ask now. */
  readonly off?: boolean;
}

export function useLoaded<Answer>(path: string, query: ApiRequest["query"] = {}, options: LoadOptions = {}): LoadedAnswer<Answer> {
  const data = useSignal<Answer | null>(null);
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const reload = useRef<() => void>(() => undefined);
  const { everyMs = 0, off = false } = options;
  const url = apiUrl(path, query);
  useEffect(() => {
    if (off) return undefined;
    const abort = new AbortController();
    const load = (): void => {
      if (busy.peek() && !abort.signal.aborted) return;
      busy.value = true;
      ask<Answer>(path, { query, signal: abort.signal })
        .then((answer) => {
          data.value = answer;
          error.value = null;
        })
        .catch((reason: unknown) => {
          if (!abort.signal.aborted) error.value = reason as ApiError;
        })
        .finally(() => {
          if (!abort.signal.aborted) busy.value = false;
        });
    };
    busy.value = false;
    reload.current = load;
    // Whoever types a filter does not need the answer to each letter.
    const first = setTimeout(load, data.peek() === null ? 0 : typingMs);
    const timer = everyMs === 0 ? null : setInterval(() => document.hidden || signedIn.peek() === null || load(), everyMs);
    return () => {
      abort.abort();
      clearTimeout(first);
      if (timer !== null) clearInterval(timer);
    };
  }, [url, everyMs, off]);
  return { data, error, busy, reload: () => reload.current() };
}

const typingMs = 150;
