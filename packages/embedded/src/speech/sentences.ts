/** With longer pieces, the listener and other requests would have to wait too long. */
export const pieceCharactersMax = 240;

/**
 * Splits a text into pieces that are spoken one after the other: sentences, and long sentences at a comma or, without one, between
 * words. All words of the text are kept, in order.
 */
export function sentences(text: string): readonly string[] {
  return text
    .split(/\n\s*\n/)
    .flatMap((paragraph) => sentencesOf(paragraph.replaceAll(/\s+/g, " ").trim()))
    .flatMap(shortened)
    .filter((piece) => piece !== "");
}

/** A dot after one of these, or after a single capital, does not end a sentence. */
const abbreviations = new Set(
  "mr mrs ms dr prof st sr jr rev gen sgt capt lt col hon vs eg ie etc cf al no nos vol fig ca approx inc ltd co corp dept est jan feb mar apr jun jul aug sep sept oct nov dec".split(
    " ",
  ),
);

function sentencesOf(paragraph: string): readonly string[] {
  const found: string[] = [];
  let start = 0;
  for (const { 0: end, index } of paragraph.matchAll(/[.!?…]+["')\]]*(?= )/g)) {
    const word = (/[\p{L}.]*$/u.exec(paragraph.slice(start, index))?.[0] ?? "").replaceAll(".", "");
    const next = paragraph.slice(index + end.length + 1, index + end.length + 3);
    const abbreviated = end === "." && (abbreviations.has(word.toLowerCase()) || /^\p{Lu}$/u.test(word));
    if (abbreviated || /^\p{Ll}/u.test(next)) continue;
    found.push(paragraph.slice(start, index + end.length));
    start = index + end.length + 1;
  }
  found.push(paragraph.slice(start));
  return found;
}

function shortened(sentence: string): readonly string[] {
  const pieces: string[] = [];
  let rest = sentence;
  while (rest.length > pieceCharactersMax) {
    const window = rest.slice(0, pieceCharactersMax);
    const pause = Math.max(...[", ", "; ", ": ", " - "].map((mark) => window.lastIndexOf(mark))) + 1;
    const blank = window.lastIndexOf(" ") + 1;
    // A comma near the beginning would make a piece too short to sound natural.
    const cut = pause > pieceCharactersMax / 4 ? pause : blank > 0 ? blank : pieceCharactersMax;
    pieces.push(rest.slice(0, cut).trim());
    rest = rest.slice(cut).trim();
  }
  pieces.push(rest);
  return pieces;
}
