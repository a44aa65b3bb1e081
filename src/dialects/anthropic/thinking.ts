import type { Conversation, ReasoningEffort, ReasoningRequest } from "../../operations/conversation/conversation.ts";
import type { MessagesModel } from "./model-facts.ts";

/** How the model is asked to think, and what cannot be asked of it. */
export interface ThinkingFields {
  /** The field `thinking`; null: it is left out. */
  readonly thinking: Readonly<Record<string, unknown>> | null;
  /** The field `output_config.effort`; null: it is left out. */
  readonly effort: string | null;
  /** The model thinks: some other fields are refused then. */
  readonly isOn: boolean;
  /** The client's wish could not be met. */
  readonly isDropped: boolean;
}

/**
 * What a client's wish means for a model. A forced tool call goes before thinking, because the API refuses both together, and so does the
 * number of tokens that the client allows: thinking counts among them. `callsUnthought`: the conversation is between calls and their
 * results, and there is no thought before the calls.
 */
export function thinkingFields(
  { reasoning, toolChoice, tools }: Conversation,
  facts: MessagesModel,
  maxTokens: number,
  callsUnthought: boolean,
): ThinkingFields {
  const forces = tools.length > 0 && facts.forcedTools && (toolChoice?.kind === "required" || toolChoice?.kind === "named");
  const wishes = reasoning !== null && reasoning.effort !== "none";
  if (facts.thinking === "never") return { ...silent, isDropped: wishes };
  if (forces) return { ...(facts.thinksUnasked ? least(facts) : silent), isDropped: wishes };
  if (reasoning === null) return { ...silent, isOn: facts.thinksUnasked };
  if (!wishes) return least(facts);
  if (facts.thinking === "adaptive") return adaptive(reasoning, facts);
  const budget = budgetOf(reasoning, facts, maxTokens);
  // Such a model refuses to think between a call that it made without thinking and its result.
  if (budget === null || callsUnthought) return { ...silent, isDropped: true };
  return { thinking: { type: "enabled", budget_tokens: budget }, effort: null, isOn: true, isDropped: false };
}

const silent: ThinkingFields = { thinking: null, effort: null, isOn: false, isDropped: false };

/** It must be said: the newer models think where they are not told otherwise. */
function least({ leastThinking, thinking }: MessagesModel): ThinkingFields {
  if (leastThinking === "low") return { thinking: { type: "adaptive" }, effort: "low", isOn: true, isDropped: true };
  const isOn = leastThinking !== "disabled";
  return { thinking: thinking === "never" ? null : { type: leastThinking }, effort: null, isOn, isDropped: isOn };
}

function adaptive({ effort, budgetTokens, summary }: ReasoningRequest, { xhigh }: MessagesModel): ThinkingFields {
  const asked = effort ?? effortOf(budgetTokens);
  const known = asked === "minimal" ? "low" : asked === "xhigh" && !xhigh ? "high" : asked;
  const display = summary === "none" ? "omitted" : "summarized";
  return { thinking: { type: "adaptive", display }, effort: known, isOn: true, isDropped: false };
}

/** A budget is the effort that is commonly given so many tokens. */
function effortOf(budgetTokens: number | null): ReasoningEffort | null {
  if (budgetTokens === null) return null;
  if (budgetTokens < 4096) return "low";
  return budgetTokens < 16_384 ? "medium" : "high";
}

/** The tokens for thinking: a share of what the model can write, and never so many that none are left for the answer. */
function budgetOf({ effort, budgetTokens }: ReasoningRequest, { outputMax }: MessagesModel, maxTokens: number): number | null {
  const most = maxTokens - Math.min(answerTokens, Math.floor(maxTokens / 2));
  const wished = budgetTokens ?? Math.floor((shares[effort ?? "medium"] / 100) * outputMax);
  return most < budgetMin ? null : Math.max(budgetMin, Math.min(wished, most));
}

/** In hundredths of the most output. */
const shares: Readonly<Record<ReasoningEffort, number>> = { none: 0, minimal: 2, low: 10, medium: 30, high: 60, xhigh: 90, max: 95 };
const budgetMin = 1024;
const answerTokens = 4096;
