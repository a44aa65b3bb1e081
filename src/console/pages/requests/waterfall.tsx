import { duration, money } from "../../core/format.ts";
import { causeText } from "../../../usage/call-story.ts";

/** What a waterfall needs of a call, whether it has ended or still runs. */
export interface WaterfallCall {
  readonly took_ms: number;
  readonly first_content_ms: number | null;
  readonly attempts: readonly WaterfallAttempt[];
}

export interface WaterfallAttempt {
  readonly channel: string;
  readonly model: string;
  readonly after_ms: number;
  readonly took_ms: number;
  readonly outcome: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly hedge: boolean;
  readonly cost_usd: number | null;
}

/** The attempts of a call, each where it began and as long as it took. */
export function Waterfall({ request }: { readonly request: WaterfallCall }) {
  const { attempts } = request;
  if (attempts.length === 0) return <p class="muted">No upstream was asked.</p>;
  const wholeMs = wholeOf(request);
  return (
    <ol class="waterfall">
      {attempts.map((attempt, at) => (
        <li key={at}>
          <span>
            <strong>{attempt.channel}</strong> {attempt.hedge && <span class="small muted">hedge</span>}
            <span class="small muted"> {outcomeText(attempt)}</span>
          </span>
          <span class="track" title={`${attempt.model}: after ${duration(attempt.after_ms)}, for ${duration(attempt.took_ms)}`}>
            <span
              class={`part ${attempt.outcome}`}
              style={{ left: share(attempt.after_ms, wholeMs), width: share(attempt.took_ms, wholeMs) }}
            />
            {attempt.outcome === "answered" && request.first_content_ms !== null && (
              <span class="mark" style={{ left: share(request.first_content_ms, wholeMs) }} title="first content" />
            )}
          </span>
          <span class="small nowrap">
            {duration(attempt.took_ms)} <span class="muted">{attempt.cost_usd === null ? "" : money(attempt.cost_usd)}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}

/** An abandoned attempt may end after its call. */
export function wholeOf({ took_ms, attempts }: WaterfallCall): number {
  return Math.max(1, took_ms, ...attempts.map((attempt) => attempt.after_ms + attempt.took_ms));
}

function share(ms: number, wholeMs: number): string {
  return `${Math.min(100, (100 * Math.max(0, ms)) / wholeMs).toFixed(2)}%`;
}

function outcomeText({ outcome, status, error }: WaterfallAttempt): string {
  if (outcome === "answered") return "answered";
  if (outcome === "abandoned") return "was not needed any more";
  return `failed: ${causeText(error)}${status === null ? "" : ` [${status}]`}`;
}
