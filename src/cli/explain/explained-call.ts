import { causeText, storyOf, verdictText } from "../../usage/call-story.ts";
import type { CallView } from "../management/management.ts";
import { dollars, shown } from "../shown-text.ts";
import { facts, table } from "../table.ts";

/** What happened to a call, for people: one sentence, what is known of it, its attempts, and why each candidate was asked or not. */
export function explainedCall(receipt: CallView): string {
  const { attempts, plan } = receipt;
  return [
    shown(storyOf(receipt)),
    facts([
      ["id", `${receipt.request_id} (receipt ${receipt.id})`],
      ["started", receipt.started_at],
      ["key", receipt.key_name ?? receipt.key],
      ["asked for", `${receipt.operation}${receipt.stream ? ", streamed" : ""}, model ${receipt.model}`],
      ["answered by", receipt.channel === null ? "nobody" : `${receipt.channel} (${receipt.upstream_model ?? receipt.model})`],
      ["status", `${receipt.status} ${receipt.state}${receipt.error === null ? "" : `, ${receipt.error}`}`],
      ["took", timesOf(receipt)],
      ["used", usedText(receipt)],
      ["cost", costText(receipt)],
      ["warning", receipt.warning],
    ]),
    ...(attempts.length === 0 ? [] : [`Attempts:\n${attemptsTable(attempts)}`]),
    ...(plan === null || plan.length === 0 ? [] : [`Why it went this way:\n${plan.map(stepLine).join("\n")}`]),
  ].join("\n\n");
}

function timesOf({ took_ms, first_content_ms }: CallView): string {
  return `${milliseconds(took_ms)}${first_content_ms === null ? "" : `, first content after ${milliseconds(first_content_ms)}`}`;
}

function usedText({ delivered, estimated }: CallView): string | null {
  const { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, audio_seconds, characters } = delivered;
  const parts = [
    prompt_tokens === null
      ? null
      : `${prompt_tokens} tokens in${cached_tokens === null || cached_tokens === 0 ? "" : ` (${cached_tokens} from the cache)`}`,
    completion_tokens === null
      ? null
      : `${completion_tokens} tokens out${reasoning_tokens === null || reasoning_tokens === 0 ? "" : ` (${reasoning_tokens} for reasoning)`}`,
    audio_seconds === null ? null : `${audio_seconds} s of audio`,
    characters === null ? null : `${characters} characters`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : `${parts.join(", ")}${estimated ? ", estimated" : ""}`;
}

function costText({ billed_usd, cost_uncertain, hedge_waste_usd }: CallView): string {
  if (billed_usd === null) return "not known: a price is missing";
  const waste = hedge_waste_usd === 0 ? "" : `, of which ${dollars(hedge_waste_usd)} for hedges that lost`;
  return `${dollars(billed_usd)} dollars${cost_uncertain ? " or more" : ""}${waste}`;
}

function attemptsTable(attempts: CallView["attempts"]): string {
  return table(
    [
      { title: "AFTER", cell: ({ after_ms }) => milliseconds(after_ms), right: true },
      { title: "FOR", cell: ({ took_ms }) => milliseconds(took_ms), right: true },
      { title: "CHANNEL", cell: ({ channel, hedge }) => (hedge ? `${channel} (hedge)` : channel) },
      { title: "MODEL", cell: ({ model }) => model },
      { title: "OUTCOME", cell: outcomeText },
    ],
    attempts,
  );
}

function outcomeText({ outcome, status, error }: CallView["attempts"][number]): string {
  if (outcome === "answered") return "answered";
  if (outcome === "abandoned") return "was not needed any more";
  return `${causeText(error)}${status === null ? "" : ` [${status}]`}`;
}

function stepLine({ channel, model, tier, verdict, cause, for_ms: forMs }: NonNullable<CallView["plan"]>[number]): string {
  const why = cause === null ? "" : `: ${causeText(cause)}`;
  const until = forMs === null ? "" : `, for another ${milliseconds(forMs)}`;
  return shown(`  ${channel}${tier === null ? "" : ` (tier ${tier})`} ${verdictText(verdict)}${why}${until}  ${model}`);
}

function milliseconds(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}
