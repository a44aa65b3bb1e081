import { type CallRequest, maxOutputTokensOf } from "./call-request.ts";
import { isTokenBound, type ChatRequest } from "./chat/chat-request.ts";
import { valueOf } from "./json.ts";
import type { PassthroughRequest } from "./passthrough/passthrough-request.ts";
import type { TranscriptionRequest } from "./transcription/transcription-request.ts";

/**
 * The text of a request, in lower case and without JSON escapes, by which an echo of it in an upstream's error can be found. `others` are
 * values that were sent besides the body.
 */
export function requestText(ask: CallRequest, others: readonly string[] = []): string {
  const texts = textsOf(ask);
  return [...texts, ...others].join("\n").toLowerCase();
}

function textsOf(ask: CallRequest): readonly string[] {
  if (ask.operation === "transcription") return formTexts(ask);
  if ("form" in ask && ask.form !== undefined) return [ask.form.text];
  return "maxTokens" in ask ? boundedTexts(ask) : [jsonText(ask.body)];
}

/** Without the requested number of tokens: a lower number in an error may be part of its digits, but is no echo of it. */
function boundedTexts(ask: ChatRequest | PassthroughRequest): readonly string[] {
  const { body, members } = ask;
  const largest = maxOutputTokensOf(ask);
  const texts: string[] = [];
  let from = 0;
  for (const member of members) {
    if (member.kind !== "number" || !isTokenBound(member.key)) continue;
    if ((valueOf(body, member) as number) < largest) continue;
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

/** Only the escapes that matter for the comparison: ASCII characters and white space. */
function unescaped(json: string): string {
  if (!json.includes("\\")) return json;
  return json.replace(/\\(?:u00([2-7][0-9a-f])|(["\\/])|[nrtbf])/gi, (_, code: string | undefined, itself: string | undefined) =>
    code === undefined ? (itself ?? " ") : String.fromCharCode(parseInt(code, 16)),
  );
}

const decoder = new TextDecoder();

/** Whether the request contains a number, with or without commas between its digits, or as part of a longer one. */
export function holdsFigure(text: string, figure: string): boolean {
  return (text.includes(",") ? text.replace(/(?<=\d),+(?=\d)/g, "") : text).includes(figure);
}

/**
 * A sentence of an upstream without text of the request: it is withheld if it repeats eight words in a row. If the request is no longer
 * available, or too long to be searched quickly, only seven words are kept.
 */
export function requestFree(sentence: string, text: string | null): string {
  const words = [...sentence.matchAll(word)];
  if (words.length < echoWords) return sentence;
  if (text === null || text.length > searchedMaxChars) {
    const last = words[echoWords - 2]!;
    return `${sentence.slice(0, last.index + last[0].length)} …`;
  }
  const lowerCase = words.map(([each]) => each.toLowerCase());
  // This check is far cheaper than splitting a long request into words, and decides nearly all cases.
  let known = 0;
  if (!lowerCase.some((each) => (known = text.includes(each) ? known + 1 : 0) >= echoWords)) return sentence;
  const requestWords = ` ${(text.match(word) ?? []).join(" ")} `;
  for (let at = 0; at + echoWords <= lowerCase.length; at++) {
    if (requestWords.includes(` ${lowerCase.slice(at, at + echoWords).join(" ")} `)) return withheld;
  }
  return sentence;
}

export const withheld = "withheld, because it repeats the request";
const echoWords = 8;
const searchedMaxChars = 256 * 1024;
/** A run of letters or digits; in scripts without spaces, a single character. */
const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]|[\p{L}\p{N}\p{M}]+/gu;
