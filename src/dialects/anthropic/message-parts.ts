import type { ChatAnswer, CitedPage, Finish, FinishReason } from "../../operations/conversation/answer-parts.ts";
import type { Part, Tool, ToolCallPart } from "../../operations/conversation/conversation.ts";
import { unwrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { ToolNames } from "../../operations/conversation/tool-names.ts";
import { elementsOf, isJsonObject, lastMember, membersOf, scanJson, type JsonObject } from "../../operations/json.ts";
import { servedBy } from "../../operations/usage.ts";
import { answerToolName } from "./answer-tool.ts";
import { ownValues } from "./content-blocks.ts";
import { messageUsage } from "./message-usage.ts";
import { citedPage, pagesMax } from "../translated/cited-pages.ts";
import { depthLimits, filledTextOf, objectsIn, textOf } from "../untrusted.ts";

/** The parts of a complete answer, of which `readMessage` has found that it is one. */
export function messageAnswer(body: Uint8Array, message: JsonObject, tools: readonly Tool[]): ChatAnswer {
  const names = new ToolNames(tools);
  const content = contentOf(message);
  const inputs = content.some((block) => isJsonObject(block) && block["type"] === "tool_use") ? inputTexts(body) : [];
  const parts = content.flatMap((block, index) => (isJsonObject(block) ? partsOf(block, inputs[index] ?? "{}", names) : []));
  const hasAnswer = content.some((block) => isJsonObject(block) && isAnswer(block["name"], names.toolOf(answerToolName)));
  const refusal = refusalText(message["stop_details"]);
  if (refusal !== null) parts.push({ kind: "refusal", text: refusal });
  const sources = sourcesIn(content);
  return {
    id: filledTextOf(message["id"]),
    model: servedModel(content) ?? filledTextOf(message["model"]),
    createdSeconds: null,
    parts,
    finish: finishOf(endReason(message["stop_reason"], hasAnswer), message["stop_sequence"]),
    usage: servedBy(messageUsage(message["usage"]), servedModel(content)),
    ...(sources.length === 0 ? undefined : { sources }),
  };
}

/** The pages that texts of an answer cite. A citation is about the whole block that it stands in. */
function sourcesIn(content: readonly unknown[]): readonly CitedPage[] {
  const pages: CitedPage[] = [];
  let characters = 0;
  for (const block of content) {
    if (!isJsonObject(block) || block["type"] !== "text") continue;
    const start = characters;
    characters += textOf(block["text"]).length;
    for (const citation of objectsIn(block["citations"])) {
      const page = pageOf(citation, start, characters);
      if (page !== null && pages.length < pagesMax) pages.push(page);
    }
  }
  return pages;
}

/** Citations of documents, which the client sent itself, name no page. */
export function pageOf(citation: JsonObject, start: number, end: number): CitedPage | null {
  return citation["type"] === "web_search_result_location" ? citedPage(citation["url"], citation["title"], start, end) : null;
}

export function contentOf(message: JsonObject): readonly unknown[] {
  return Array.isArray(message["content"]) ? (message["content"] as readonly unknown[]) : [];
}

/** Blocks of the provider's own tools say nothing to a client that speaks another API. */
function partsOf(block: JsonObject, input: string, names: ToolNames): readonly Part[] {
  switch (block["type"]) {
    case "text": {
      const text = filledTextOf(block["text"]) ?? "";
      const citations = Array.isArray(block["citations"]) && block["citations"].length > 0 ? JSON.stringify(block["citations"]) : null;
      if (text === "") return [];
      return [{ kind: "text", text, ...(citations === null ? undefined : { citations: { dialect: ownValues, data: citations } }) }];
    }
    case "thinking": {
      const text = filledTextOf(block["thinking"]) ?? "";
      const signature = filledTextOf(block["signature"]);
      if (text === "" && signature === null) return [];
      return [{ kind: "reasoning", text, signature: signature === null ? null : { dialect: ownValues, data: signature } }];
    }
    case "redacted_thinking": {
      const data = filledTextOf(block["data"]);
      return data === null ? [] : [{ kind: "reasoning", text: "", signature: { dialect: ownValues, data }, redacted: true }];
    }
    case "tool_use": {
      const name = filledTextOf(block["name"]) ?? "";
      const tool = names.toolOf(name);
      if (isAnswer(name, tool)) return [{ kind: "text", text: input }];
      const args = tool?.custom === undefined ? input : unwrapCustomInput(input);
      return [{ kind: "tool_call", id: filledTextOf(block["id"]) ?? "", ...calledAs(tool, name), arguments: args }];
    }
    default:
      return [];
  }
}

export function calledAs(tool: Tool | null, name: string): Pick<ToolCallPart, "name" | "namespace" | "custom" | "search"> {
  if (tool === null) return { name };
  return {
    name: tool.name,
    ...(tool.namespace === undefined ? undefined : { namespace: tool.namespace }),
    ...(tool.custom === undefined ? undefined : { custom: true as const }),
    ...(tool.search === undefined ? undefined : { search: tool.search }),
  };
}

/** The inputs of calls as the model wrote them, by the number of their block: parsed and printed, large numbers would lose digits. */
function inputTexts(body: Uint8Array): readonly (string | undefined)[] {
  const document = scanJson(body, depthLimits);
  const content = document.ok ? lastMember(document.members, "content") : undefined;
  if (content?.kind !== "array") return [];
  return elementsOf(body, content.start, content.end).map((block) => {
    const input = block.kind === "object" ? lastMember(membersOf(body, block.start, block.end), "input") : undefined;
    return input?.kind === "object" ? decoder.decode(body.subarray(input.start, input.end)) : undefined;
  });
}

/** The model that served where the provider fell back to another one. */
export function servedModel(content: readonly unknown[]): string | null {
  for (const block of content) {
    const model = isJsonObject(block) ? fallbackModel(block) : null;
    if (model !== null) return model;
  }
  return null;
}

export function fallbackModel(block: JsonObject): string | null {
  const to = block["type"] === "fallback" ? block["to"] : null;
  return isJsonObject(to) ? filledTextOf(to["model"]) : null;
}

export function refusalText(details: unknown): string | null {
  return isJsonObject(details) && details["type"] === "refusal" ? filledTextOf(details["explanation"]) : null;
}

/** Whether a call is the answer: it is not, where the client declared a tool of that name. */
export function isAnswer(name: unknown, tool: Tool | null): boolean {
  return name === answerToolName && tool === null;
}

/** An answer that is the input of a tool ends for its sake; to the client it is a text that has ended. */
export function endReason(reason: unknown, hasAnswer: boolean): unknown {
  return reason === "tool_use" && hasAnswer ? "end_turn" : reason;
}

/**
 * The end of an answer for a client of another API. One that was paused goes on when it is sent back as it is, which such a client cannot
 * do, so that the rest is missing ("Handling stop reasons" in the API's guide).
 */
export function finishOf(reason: unknown, stopSequence: unknown): Finish {
  if (reason === "pause_turn") return { reason: "length", stopSequence: null };
  return { reason: finishReason(reason), stopSequence: reason === "stop_sequence" ? filledTextOf(stopSequence) : null };
}

export function finishReason(reason: unknown): FinishReason {
  switch (reason) {
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length";
    case "tool_use":
      return "tool_calls";
    case "refusal":
      return "content_filter";
    // `end_turn`, `stop_sequence`; `pause_turn`, after which a client of this API goes on by itself (`finishOf` is for others); and
    // reasons that are not known yet.
    default:
      return "stop";
  }
}

const decoder = new TextDecoder();
