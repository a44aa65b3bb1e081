/** What is spoken, by whom and how fast. */
export interface SpokenText {
  readonly text: string;
  readonly voice: string;
  /** A multiple of the voice's usual speed; null: the usual speed. */
  readonly rate: number | null;
}

/** A document of one voice (https://learn.microsoft.com/azure/ai-services/speech-service/speech-synthesis-markup-structure). */
export function ssmlOf({ text, voice, rate }: SpokenText): string {
  const { opening, closing } = rateTags(rate);
  return (
    `<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="${localeIn(voice)}">` +
    `<voice name="${escapedXml(voice)}">${opening}${escapedXml(text)}${closing}</voice></speak>`
  );
}

/**
 * The characters that are billed: every one of the text, Chinese ones twice, and the markup inside of the voice
 * (https://learn.microsoft.com/azure/ai-services/speech-service/text-to-speech#billable-characters).
 */
export function billedCharacters({ text, rate }: SpokenText, characters: number): number {
  const { opening, closing } = rateTags(rate);
  return characters + chineseIn(text) + opening.length + closing.length;
}

/** About how long it takes to speak. A Chinese, Japanese or Korean character is a syllable or more. */
export function spokenSeconds({ text, rate }: SpokenText, characters: number): number {
  const syllables = text.match(syllabic)?.length ?? 0;
  return (syllables / syllablesPerSecond + (characters - syllables) / lettersPerSecond) / (rate ?? 1);
}

const syllablesPerSecond = 5;
const lettersPerSecond = 14;

function chineseIn(text: string): number {
  return text.match(chinese)?.length ?? 0;
}

const chinese = /\p{Script=Han}/gu;
const syllabic = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/gu;

function rateTags(rate: number | null): { readonly opening: string; readonly closing: string } {
  return rate === null ? { opening: "", closing: "" } : { opening: `<prosody rate="${rate}">`, closing: "</prosody>" };
}

/** The name of a voice begins with its locale. Multilingual voices speak other languages all the same. */
function localeIn(voice: string): string {
  return /^[a-z]{2,3}(?:-[A-Z][a-z]{3})?-[A-Z]{2}(?=-)/.exec(voice)?.[0] ?? "en-US";
}

/**
 * Text for an XML document, as content or inside of quotes. What XML does not allow in any form (most control characters, halves of
 * surrogate pairs, U+FFFE and U+FFFF) is replaced by a space, which separates words as well and makes no sound.
 */
export function escapedXml(text: string): string {
  return text.replace(forbidden, " ").replace(/[&<>"']/g, (character) => entities[character] ?? "");
}

const forbidden = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };
