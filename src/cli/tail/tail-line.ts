import { shown } from "../shown-text.ts";

/** A call as the admin API streams it. */
export interface TailedCall {
  readonly request_id: string;
  readonly key_name: string | null;
  readonly operation: string;
  readonly model: string | null;
  readonly state: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly started_ms: number;
  readonly took_ms: number;
  readonly first_content_ms: number | null;
  readonly output_tokens: number;
  readonly cost_usd: number | null;
  readonly attempts: readonly { readonly channel: string; readonly outcome: string }[];
}

/** A call in one line: when, how it ended, who asked for what, where it went, how long it took, and its id. */
export function tailLine(call: TailedCall): string {
  const attempts = call.attempts.map(({ channel, outcome }) => (outcome === "failed" ? `${channel}!` : channel)).join(" > ");
  const parts = [
    new Date(call.started_ms).toTimeString().slice(0, 8),
    `${call.status ?? "-"} ${call.state === "complete" ? "ok" : (call.error ?? call.state)}`.padEnd(24),
    call.operation.padEnd(13),
    (call.model ?? "-").padEnd(24),
    (call.key_name ?? "-").padEnd(16),
    (attempts === "" ? "-" : attempts).padEnd(24),
    `${Math.round(call.took_ms)} ms`.padStart(9),
    call.first_content_ms === null ? "" : `first ${Math.round(call.first_content_ms)} ms`,
    call.output_tokens === 0 ? "" : `${call.output_tokens} tokens`,
    call.cost_usd === null ? "" : `$${call.cost_usd}`,
    call.request_id,
  ];
  // Names come from clients and operators.
  return shown(parts.filter((part) => part !== "").join("  "));
}

export function isWanted(
  call: TailedCall,
  line: string,
  { failed, words }: { readonly failed: boolean; readonly words: readonly string[] },
): boolean {
  if (call.state === "running" || (failed && call.state === "complete")) return false;
  const text = line.toLowerCase();
  return words.every((word) => text.includes(word.toLowerCase()));
}
