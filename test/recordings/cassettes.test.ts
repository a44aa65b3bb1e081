// Needs: slow. It reads some six hundred answers, byte by byte.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { StreamPart } from "../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { collectStream } from "../support/collected-stream.ts";
import { providerReaders } from "../support/provider-readers.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { recordedAnswers, type RecordedAnswer } from "./cassettes.ts";
import { framedEvents, plainReadings, sentEvents, type PlainReading } from "./plain-reading.ts";

setDefaultTimeout(300_000);

const found = await recordedAnswers();
const missing = remark(found);
const answers = missing === "" ? present(found as readonly RecordedAnswer[]) : [];
/** Longer ones are cut in two places instead of everywhere. */
const bytewiseMax = 64 * 1024;

function isEvents({ body }: RecordedAnswer): boolean {
  return /^(?:event|data|id|:)/.test(new TextDecoder().decode(body.subarray(0, 8)));
}

function isFramed({ path, body }: RecordedAnswer): boolean {
  return path.endsWith("/converse-stream") && body[0] === 0;
}

function isJson({ body }: RecordedAnswer): boolean {
  return /^\s*\{/.test(new TextDecoder().decode(body.subarray(0, 16)));
}

/** The API of an answer, by its path or, where that was blanked out, by what only this API says; null where it is none of a chat. */
function dialectOf(answer: RecordedAnswer): string | null {
  const { path, body } = answer;
  if (path.endsWith("/v1/messages")) return "anthropic";
  if (path.endsWith("/chat/completions")) return "openai";
  if (path.endsWith("/v1/responses")) return "openai-responses";
  if (/\/converse(-stream)?$/.test(path)) return "bedrock-converse";
  if (path === "/v2/chat") return "cohere";
  if (path.endsWith(":generateContent")) return "gemini";
  if (path !== "") return null;
  const begin = new TextDecoder().decode(body.subarray(0, 4096));
  if (/"object": ?"chat\.completion/.test(begin)) return "openai";
  if (/"object": ?"response"/.test(begin)) return "openai-responses";
  return /"type": ?"message_start"|^\{[^{]*"type": ?"message"/.test(begin) ? "anthropic" : null;
}

function readingOf(parts: readonly (Part | StreamPart)[]): PlainReading {
  return {
    text: parts.map((part) => (part.kind === "text" ? part.text : "")).join(""),
    calls: parts.filter(({ kind }) => kind === "tool_call").length,
  };
}

const byDialect = Map.groupBy(answers, dialectOf);

describe.skipIf(missing !== "")(`an answer of a provider that another project recorded${missing}`, () => {
  test("is one of many, of every dialect", () => {
    const counts = Object.keys(providerReaders).map((dialect) => [dialect, byDialect.get(dialect)?.length ?? 0] as const);
    expect(counts.filter(([, count]) => count === 0)).toEqual([]);
    expect(counts.reduce((sum, [, count]) => sum + count, 0)).toBeGreaterThan(500);
  });

  test.each(Object.keys(providerReaders))("is read whole as what it says: %s", (dialect) => {
    for (const answer of (byDialect.get(dialect) ?? []).filter(isJson)) {
      const { name, body } = answer;
      const whole = providerReaders[dialect]!.whole(body);
      const json = JSON.parse(new TextDecoder().decode(body)) as Readonly<Record<string, unknown>>;
      if (isFailure(whole)) {
        // It is an error after all, or runs in the background and is not there yet.
        expect([name, json["error"] ?? json["status"]]).toEqual([name, expect.anything()]);
        expect(json["status"]).not.toBe("completed");
        continue;
      }
      expect([name, readingOf(whole.answer?.parts ?? [])]).toEqual([name, plainReadings[dialect]!.whole(json)]);
      expect([name, whole.finish]).toEqual([name, expect.any(String)]);
      expect([name, whole.usage?.promptTokens]).toEqual([name, expect.any(Number)]);
    }
  });

  test.each(Object.keys(providerReaders))("is read as a stream as what it says, however it is cut: %s", (dialect) => {
    const reader = providerReaders[dialect]!;
    for (const answer of (byDialect.get(dialect) ?? []).filter((one) => isEvents(one) || isFramed(one))) {
      const { name, body } = answer;
      const whole = collectStream(reader.stream(), [body]);
      expect([name, whole.failure?.detail]).toEqual([name, undefined]);
      const events = isFramed(answer) ? framedEvents(body) : sentEvents(body);
      expect([name, readingOf(whole.parts)]).toEqual([name, plainReadings[dialect]!.events(events)]);
      expect([name, whole.emissions.at(-1)?.kind]).toEqual([name, "end"]);
      const middle = Math.floor(body.length / 2);
      const pieces =
        body.length > bytewiseMax ? [body.subarray(0, middle), body.subarray(middle)] : Array.from(body, (byte) => Uint8Array.of(byte));
      expect(collectStream(reader.stream(), pieces)).toEqual(whole);
    }
  });
});
