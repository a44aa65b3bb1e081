import type { CitedPage } from "../../operations/conversation/answer-parts.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { citedPage, pagesMax } from "../translated/cited-pages.ts";
import { numberOf, objectOf, objectsIn } from "../untrusted.ts";

/**
 * The pages that a searched answer is made of. A segment of its text names them by their number in a list; both may come before the last
 * piece of a stream (ai.google.dev/gemini-api/docs/google-search). `text`: the text of the answer, to which the bytes of a segment refer.
 */
export function groundedPages(candidate: JsonObject, text: string): readonly CitedPage[] {
  const metadata = objectOf(candidate["groundingMetadata"]);
  if (metadata === null) return [];
  const chunks = Array.isArray(metadata["groundingChunks"]) ? (metadata["groundingChunks"] as readonly unknown[]) : [];
  const pages: CitedPage[] = [];
  const bytes = encoder.encode(text);
  const characterAt = (byte: number | null): number => decoder.decode(bytes.subarray(0, byte ?? 0)).length;
  for (const support of objectsIn(metadata["groundingSupports"]).slice(0, pagesMax)) {
    const segment = objectOf(support["segment"]);
    const start = characterAt(numberOf(segment?.["startIndex"]));
    const end = characterAt(numberOf(segment?.["endIndex"]));
    for (const number of Array.isArray(support["groundingChunkIndices"]) ? (support["groundingChunkIndices"] as readonly unknown[]) : []) {
      const chunk = typeof number === "number" ? chunks[number] : undefined;
      const web = isJsonObject(chunk) ? objectOf(chunk["web"]) : null;
      const page = web === null ? null : citedPage(web["uri"], web["title"], start, end);
      if (page !== null && pages.length < pagesMax) pages.push(page);
    }
  }
  return pages;
}

/** How many searches were made for a response, over all of its candidates. */
export function searchesIn(candidates: readonly JsonObject[]): number {
  const queries = new Set<string>();
  for (const candidate of candidates) {
    const list = objectOf(candidate["groundingMetadata"])?.["webSearchQueries"];
    for (const query of Array.isArray(list) ? (list as readonly unknown[]).slice(0, pagesMax) : []) {
      if (typeof query === "string" && query !== "") queries.add(query);
    }
  }
  return queries.size;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
