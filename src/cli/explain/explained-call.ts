import { causeText, storyOf, verdictText } from "../../usage/call-story.ts";
import type { AttemptReceipt, PlannedStep, Receipt } from "../../usage/receipt.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { money, shown } from "../shown-text.ts";
import { facts, table } from "../table.ts";

/** What happened to a call, for people: one sentence, what is known of it, its attempts, and why each candidate was asked or not. */
export function explainedCall(receipt: Receipt, keyName: string | null): string {
  const { attempts, plan } = receipt;
  return [
    shown(storyOf(receipt)),
    facts([
      ["id", `${receipt.requestId} (receipt ${receipt.id})`],
      ["started", isoMoment(receipt.startedMs)],
      ["key", keyName ?? receipt.keyId],
      ["asked for", `${receipt.operation}${receipt.stream ? ", streamed" : ""}, model ${receipt.model}`],
      ["answered by", receipt.channel === null ? "nobody" : `${receipt.channel} (${receipt.upstreamModel ?? receipt.model})`],
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

function timesOf({ tookMs, firstContentMs }: Receipt): string {
  return `${milliseconds(tookMs)}${firstContentMs === null ? "" : `, first content after ${milliseconds(firstContentMs)}`}`;
}

function usedText({ delivered, estimated }: Receipt): string | null {
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens, audioSeconds, characters } = delivered;
  const parts = [
    promptTokens === null
      ? null
      : `${promptTokens} tokens in${cachedTokens === null || cachedTokens === 0 ? "" : ` (${cachedTokens} from the cache)`}`,
    completionTokens === null
      ? null
      : `${completionTokens} tokens out${reasoningTokens === null || reasoningTokens === 0 ? "" : ` (${reasoningTokens} for reasoning)`}`,
    audioSeconds === null ? null : `${audioSeconds} s of audio`,
    characters === null ? null : `${characters} characters`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : `${parts.join(", ")}${estimated ? ", estimated" : ""}`;
}

function costText({ billedNanos, costUncertain, hedgeWasteNanos }: Receipt): string {
  if (billedNanos === null) return "not known: a price is missing";
  const waste = hedgeWasteNanos === 0 ? "" : `, of which ${money(hedgeWasteNanos)} for hedges that lost`;
  return `${money(billedNanos)} dollars${costUncertain ? " or more" : ""}${waste}`;
}

function attemptsTable(attempts: readonly AttemptReceipt[]): string {
  return table(
    [
      { title: "AFTER", cell: ({ afterMs }) => milliseconds(afterMs), right: true },
      { title: "FOR", cell: ({ tookMs }) => milliseconds(tookMs), right: true },
      { title: "CHANNEL", cell: ({ channel, hedge }) => (hedge ? `${channel} (hedge)` : channel) },
      { title: "MODEL", cell: ({ model }) => model },
      { title: "OUTCOME", cell: outcomeText },
    ],
    attempts,
  );
}

function outcomeText({ outcome, status, error }: AttemptReceipt): string {
  if (outcome === "answered") return "answered";
  if (outcome === "abandoned") return "was not needed any more";
  return `${causeText(error)}${status === null ? "" : ` [${status}]`}`;
}

function stepLine({ channel, model, tier, verdict, cause, forMs }: PlannedStep): string {
  const why = cause === null ? "" : `: ${causeText(cause)}`;
  const until = forMs === null ? "" : `, for another ${milliseconds(forMs)}`;
  return shown(`  ${channel}${tier === null ? "" : ` (tier ${tier})`} ${verdictText(verdict)}${why}${until}  ${model}`);
}

function milliseconds(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}
