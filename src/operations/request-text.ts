import type { CallRequest } from "./call-request.ts";
import { isTokenBound, type ChatRequest } from "./chat/chat-request.ts";
import { valueOf } from "./json.ts";
import type { TranscriptionRequest } from "./transcription/transcription-request.ts";

/**
 * What a client wrote, in lower case and without the escapes of JSON: to tell an upstream's own words from an echo of the
 * request. `others` are values that travelled beside the body.
 */
export function requestText(ask: CallRequest, others: readonly string[] = []): string {
  const texts = ask.operation === "transcription" ? formTexts(ask) : ask.operation === "chat" ? chatTexts(ask) : [jsonText(ask.body)];
  return [...texts, ...others].join("\n").toLowerCase();
}

/** Without the largest number of tokens that was asked for: a lower figure is no echo of it, though it may be a part of its digits. */
function chatTexts({ body, members, maxTokens, maxCompletionTokens }: ChatRequest): readonly string[] {
  const asked = Math.max(maxTokens ?? 0, maxCompletionTokens ?? 0);
  const texts: string[] = [];
  let from = 0;
  for (const member of members) {
    if (member.kind !== "number" || !isTokenBound(member.key)) continue;
    if ((valueOf(body, member) as number) < asked) continue;
    texts.push(jsonText(body.subarray(from, member.start)));
    from = member.end;
  }
  texts.push(jsonText(body.subarray(from)));
  return texts;
}

function jsonText(bytes: Uint8Array): string {
  return unescaped(decoder.decode(bytes));
}

function formTexts({ fields, file }: TranscriptionRequest): readonly string[] {
  return [...fields.flatMap(({ name, value }) => [name, value]), file.name];
}

/** Only of what an upstream's words are compared with: ASCII, and the white space between words. */
function unescaped(json: string): string {
  if (!json.includes("\\")) return json;
  return json.replace(/\\(?:u00([2-7][0-9a-f])|(["\\/])|[nrtbf])/gi, (_, code: string | undefined, itself: string | undefined) =>
    code === undefined ? (itself ?? " ") : String.fromCharCode(parseInt(code, 16)),
  );
}

const decoder = new TextDecoder();

/** Whether the request holds a figure: with or without commas between its digits, or as a part of a longer one. */
export function holdsFigure(text: string, figure: string): boolean {
  return (text.includes(",") ? text.replace(/(?<=\d),+(?=\d)/g, "") : text).includes(figure);
}

/**
 * A sentence of an upstream's that repeats nothing of a request: withheld where it has eight words of it in a row. Where the request
 * is not at hand any more, or too long to be searched in passing, no more than seven words are left.
 */
export function requestFree(sentence: string, text: string | null): string {
  const words = [...sentence.matchAll(word)];
  if (words.length < echoWords) return sentence;
  if (text === null || text.length > searchedMaxChars) {
    const last = words[echoWords - 2]!;
    return `${sentence.slice(0, last.index + last[0].length)} …`;
  }
  const said = words.map(([each]) => each.toLowerCase());
  // Taking a long request apart costs far more than this, which rules nearly all errors out.
  let known = 0;
  if (!said.some((each) => (known = text.includes(each) ? known + 1 : 0) >= echoWords)) return sentence;
  const asked = ` ${(text.match(word) ?? []).join(" ")} `;
  for (let at = 0; at + echoWords <= said.length; at++) {
    if (asked.includes(` ${said.slice(at, at + echoWords).join(" ")} `)) return withheld;
  }
  return sentence;
}

export const withheld = "withheld, because it repeats the request";
const echoWords = 8;
const searchedMaxChars = 256 * 1024;
/** A run of letters or digits; in scripts without spaces, a single character. */
const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]|[\p{L}\p{N}\p{M}]+/gu;
