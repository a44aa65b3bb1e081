import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { modelNameMax, tokenCount, withSearches, type MeteredUsage, type ModelUsage } from "../../operations/usage.ts";

/**
 * The usage of an answer. Here the tokens that went through a cache are counted beside the input; in the result they are a part of the
 * prompt. A stream reports it more than once, each time in full: `before` is what it reported earlier, for what is left out later.
 */
export function messageUsage(value: unknown, before: MeteredUsage | null = null): MeteredUsage | null {
  if (!isJsonObject(value)) return before;
  const totals = totalsOf(value);
  const read = tokenCount(value["cache_read_input_tokens"]) ?? before?.cachedTokens ?? null;
  const written = tokenCount(value["cache_creation_input_tokens"]) ?? before?.cacheWriteTokens ?? null;
  const creation = isJsonObject(value["cache_creation"]) ? value["cache_creation"] : null;
  const hour = tokenCount(creation?.["ephemeral_1h_input_tokens"]) ?? before?.cacheWriteHourTokens ?? null;
  const details = isJsonObject(value["output_tokens_details"]) ? value["output_tokens_details"] : null;
  const completionTokens = totals.output ?? before?.completionTokens ?? null;
  const thought = tokenCount(details?.["thinking_tokens"]) ?? before?.reasoningTokens ?? null;
  const advice = adviceIn(value) ?? before?.advice;
  const tools = isJsonObject(value["server_tool_use"]) ? value["server_tool_use"] : null;
  // Pages that are fetched cost nothing but their tokens.
  const searches = tokenCount(tools?.["web_search_requests"]) ?? before?.webSearches ?? 0;
  const usage: MeteredUsage = {
    promptTokens: totals.input === null ? (before?.promptTokens ?? null) : totals.input + (read ?? 0) + (written ?? 0),
    completionTokens,
    cachedTokens: read,
    reasoningTokens: thought === null || completionTokens === null ? thought : Math.min(thought, completionTokens),
    ...(written === null ? undefined : { cacheWriteTokens: written }),
    ...(hour === null || written === null || hour === 0 ? undefined : { cacheWriteHourTokens: Math.min(hour, written) }),
    ...(advice === undefined ? undefined : { advice }),
  };
  return usage.promptTokens === null && usage.completionTokens === null ? before : withSearches(usage, searches);
}

interface Totals {
  readonly input: number | null;
  readonly output: number | null;
}

/**
 * An answer for which the conversation was summarised was made in several steps, and the totals leave out all but the last. Where another
 * model of the provider served in the place of the first, the totals are right. A step of an adviser is billed as another model.
 */
function totalsOf(usage: JsonObject): Totals {
  const totals = { input: tokenCount(usage["input_tokens"]), output: tokenCount(usage["output_tokens"]) };
  const steps = stepsOf(usage);
  if (steps.some(({ type }) => type === "fallback_message")) return totals;
  const own = steps.filter(({ type }) => type === "message" || type === "compaction");
  if (own.length === 0) return totals;
  return { input: sum(own, "input_tokens"), output: sum(own, "output_tokens") };
}

/** What an adviser, which is another model, was asked in between; undefined where none was. */
function adviceIn(usage: JsonObject): readonly ModelUsage[] | undefined {
  const advice = stepsOf(usage).flatMap((step): readonly ModelUsage[] => {
    const { type, model } = step;
    if (type !== "advisor_message" || typeof model !== "string" || model.length > modelNameMax) return [];
    const used = messageUsage({ ...step, iterations: null });
    return used === null ? [] : [{ model, usage: used }];
  });
  return advice.length === 0 ? undefined : advice;
}

function stepsOf({ iterations }: JsonObject): readonly JsonObject[] {
  return Array.isArray(iterations) ? (iterations as readonly unknown[]).slice(0, stepsMax).filter(isJsonObject) : [];
}

function sum(steps: readonly JsonObject[], key: string): number {
  return steps.reduce((total, step) => total + (tokenCount(step[key]) ?? 0), 0);
}

const stepsMax = 1000;
