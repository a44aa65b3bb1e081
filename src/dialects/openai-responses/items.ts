import type { ChatAnswer, CitedPage, Finish } from "../../operations/conversation/answer-parts.ts";
import type { Part, ProviderValue, Tool, ToolCallPart } from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { servedBy, tokenCount, tokenUsage, withSearches, type MeteredUsage } from "../../operations/usage.ts";
import { ownValues } from "./models.ts";
import { citedPage, pagesMax } from "../translated/cited-pages.ts";
import { numberOf, objectsIn, textOf } from "../untrusted.ts";

/** The tools of a request, by the names that they have in this API. */
export class DeclaredTools {
  private readonly byName = new Map<string, Tool>();

  constructor(tools: readonly Tool[]) {
    for (const tool of tools) this.byName.set(keyOf(tool.namespace ?? "", wireName({ name: tool.name })), tool);
  }

  /** What the client calls the tool of a call. One that it did not declare keeps the upstream's name. */
  calledAs(item: JsonObject): Pick<ToolCallPart, "name" | "namespace" | "custom" | "search"> {
    const name = textOf(item["name"]);
    const namespace = textOf(item["namespace"]);
    const tool = this.byName.get(keyOf(namespace, name));
    return {
      name: tool?.name ?? name,
      ...(namespace === "" ? undefined : { namespace }),
      ...(item["type"] === "custom_tool_call" ? { custom: true as const } : undefined),
      ...(tool?.search === undefined ? undefined : { search: tool.search }),
    };
  }
}

function keyOf(namespace: string, name: string): string {
  return `${namespace}\n${name}`;
}

/** A complete response, as the parts of an answer. */
export function responseAnswer(response: JsonObject, tools: DeclaredTools): ChatAnswer {
  const parts: Part[] = [];
  const sources: CitedPage[] = [];
  let characters = 0;
  for (const item of itemsOf(response)) {
    const own = partsOf(item, tools);
    const [first] = own;
    // Two messages in a row are two paragraphs where there can be only one message, as they are in a stream.
    if (first?.kind === "text" && characters > 0) {
      parts.push({ ...first, text: betweenPieces + first.text }, ...own.slice(1));
      characters += betweenPieces.length;
    } else parts.push(...own);
    sources.push(...sourcesOf(item, characters));
    characters += wordsOf(item).length;
  }
  return {
    ...(sources.length === 0 ? undefined : { sources }),
    id: textOf(response["id"]) || null,
    model: textOf(response["model"]) || null,
    createdSeconds: numberOf(response["created_at"]),
    parts,
    finish: finishOf(response),
    usage: usageOf(response),
  };
}

/** The pages that a message names. `before`: how many characters of text the answer has before it. */
export function sourcesOf(item: JsonObject, before: number): readonly CitedPage[] {
  const pages: CitedPage[] = [];
  let characters = before;
  for (const content of item["type"] === "message" ? objectsIn(item["content"]) : []) {
    for (const annotation of objectsIn(content["annotations"])) {
      if (annotation["type"] !== "url_citation") continue;
      const [start, end] = [numberOf(annotation["start_index"]) ?? 0, numberOf(annotation["end_index"]) ?? 0];
      const page = citedPage(annotation["url"], annotation["title"], characters + start, characters + end);
      if (page !== null && pages.length < pagesMax) pages.push(page);
    }
    characters += textOf(content["text"]).length;
  }
  return pages;
}

export function partsOf(item: JsonObject, tools: DeclaredTools): readonly Part[] {
  switch (item["type"]) {
    case "message":
      return objectsIn(item["content"]).flatMap((content): readonly Part[] => {
        if (content["type"] === "refusal") return [{ kind: "refusal", text: textOf(content["refusal"]) }];
        const text = textOf(content["text"]);
        return text === "" ? [] : [{ kind: "text", text }];
      });
    case "reasoning": {
      const { text, summary } = thoughtOf(item);
      const signature = encryptedIn(item);
      if (text === "" && signature === null) return [];
      return [
        {
          kind: "reasoning",
          text,
          ...(summary ? { summary } : undefined),
          signature,
          ...(text === "" ? { redacted: true } : undefined),
        },
      ];
    }
    default:
      return isCall(item)
        ? [{ kind: "tool_call", id: textOf(item["call_id"]), ...tools.calledAs(item), arguments: argumentsOf(item) }]
        : [];
  }
}

/** The reasoning that an item shows: all of it, or a summary in one or more pieces. */
export function thoughtOf(item: JsonObject): { readonly text: string; readonly summary: boolean } {
  if (item["type"] !== "reasoning") return { text: "", summary: false };
  const content = objectsIn(item["content"]).map((part) => textOf(part["text"]));
  if (content.length > 0) return { text: content.join(betweenPieces), summary: false };
  const summary = objectsIn(item["summary"]).map((part) => textOf(part["text"]));
  return { text: summary.join(betweenPieces), summary: summary.length > 0 };
}

export const betweenPieces = "\n\n";

export function encryptedIn(item: JsonObject): ProviderValue | null {
  const data = textOf(item["encrypted_content"]);
  return data === "" ? null : { dialect: ownValues, data };
}

/** A call that the client has to answer. */
export function isCall({ type }: JsonObject): boolean {
  return type === "function_call" || type === "custom_tool_call";
}

/** The arguments of a complete call, or the text for a custom tool. */
export function argumentsOf(item: JsonObject): string {
  return item["type"] === "custom_tool_call" ? textOf(item["input"]) : textOf(item["arguments"]) || "{}";
}

export function itemsOf(response: JsonObject): readonly JsonObject[] {
  return objectsIn(response["output"]);
}

/** All output of a response as one text: what it says, thinks and calls. */
export function saidIn(response: JsonObject): string {
  return itemsOf(response)
    .flatMap((item) => [wordsOf(item), thoughtOf(item).text, ...(isCall(item) ? [textOf(item["name"]), argumentsOf(item)] : [])])
    .join("");
}

/** The words of a message; empty for another item. */
export function wordsOf(item: JsonObject): string {
  if (item["type"] !== "message") return "";
  return objectsIn(item["content"])
    .map((part) => textOf(part["text"]) || textOf(part["refusal"]))
    .join("");
}

/** Why the response ended, in the words of the chat API. */
export function finishOf(response: JsonObject): Finish {
  const details = response["incomplete_details"];
  const reason = response["status"] === "incomplete" && isJsonObject(details) ? details["reason"] : null;
  if (reason === "content_filter") return { reason, stopSequence: null };
  // There are other reasons to stop early; what they have in common is that there would have been more.
  if (response["status"] === "incomplete") return { reason: "length", stopSequence: null };
  return { reason: itemsOf(response).some(isCall) ? "tool_calls" : "stop", stopSequence: null };
}

/** The figures under the names that they have in chat completions. */
export function usageOf(response: JsonObject): MeteredUsage | null {
  const { usage } = response;
  if (!isJsonObject(usage)) return null;
  const counted = tokenUsage({
    prompt_tokens: usage["input_tokens"],
    completion_tokens: usage["output_tokens"],
    total_tokens: usage["total_tokens"],
    prompt_tokens_details: usage["input_tokens_details"],
    completion_tokens_details: usage["output_tokens_details"],
    cost: usage["cost"],
    cost_details: usage["cost_details"],
    cost_in_usd_ticks: usage["cost_in_usd_ticks"],
    is_byok: usage["is_byok"],
  });
  const searches = itemsOf(response).filter(isPaidSearch);
  const webItems = searches.filter(({ type }) => type === "web_search_call").length;
  return servedBy(withSearches(counted, searchRequests(response) || webItems, searches.length - webItems), response["model"]);
}

/** How many searches there were behind the items, of which one may need several; 0 where that is not said. */
function searchRequests({ tool_usage: used }: JsonObject): number {
  const search = isJsonObject(used) ? used["web_search"] : null;
  return (isJsonObject(search) ? tokenCount(search["num_requests"]) : null) ?? 0;
}

/** Of what a search of the web does, only searching costs, and not opening pages or looking for something in them. */
function isPaidSearch({ type, action, status }: JsonObject): boolean {
  if (status === "failed" || (type !== "web_search_call" && type !== "file_search_call")) return false;
  return !isJsonObject(action) || (action["type"] ?? "search") === "search";
}
