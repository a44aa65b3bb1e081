import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { tokenUsage, type MeteredUsage } from "../../operations/usage.ts";

/**
 * Reads `usageMetadata`. Thoughts are counted beside the candidates, and what tools of the upstream read beside the prompt; a cached part is
 * included in the prompt. Null if there are no figures.
 */
export function geminiUsage(value: unknown): MeteredUsage | null {
  if (!isJsonObject(value)) return null;
  const prompt = sum(value["promptTokenCount"], value["toolUsePromptTokenCount"]);
  const completion = sum(value["candidatesTokenCount"] ?? value["responseTokenCount"], value["thoughtsTokenCount"]);
  const total = value["totalTokenCount"];
  if (prompt === undefined && completion === undefined && total === undefined) return null;
  return tokenUsage({
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: total,
    prompt_tokens_details: {
      cached_tokens: value["cachedContentTokenCount"],
      audio_tokens: uncached(
        sum(audioIn(value["promptTokensDetails"]), audioIn(value["toolUsePromptTokensDetails"])),
        audioIn(value["cacheTokensDetails"]),
      ),
    },
    completion_tokens_details: {
      reasoning_tokens: value["thoughtsTokenCount"],
      audio_tokens: audioIn(value["candidatesTokensDetails"] ?? value["responseTokensDetails"]),
    },
  });
}

/** Undefined where neither is a number. */
function sum(a: unknown, b: unknown): number | undefined {
  if (typeof a !== "number") return typeof b === "number" ? b : undefined;
  return typeof b === "number" ? a + b : a;
}

/** Sound that came from the cache is among the cached tokens, and must not be billed again. */
function uncached(audio: number | undefined, cached: number | undefined): number | undefined {
  return audio === undefined || cached === undefined ? audio : Math.max(0, audio - cached);
}

function audioIn(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined;
  const audio = (details as readonly unknown[]).find((one): one is JsonObject => isJsonObject(one) && one["modality"] === "AUDIO");
  return typeof audio?.["tokenCount"] === "number" ? audio["tokenCount"] : undefined;
}
