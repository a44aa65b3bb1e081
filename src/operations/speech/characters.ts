/** How many Unicode characters a text has. Half of a surrogate pair that stands alone counts as one. */
export function characterCount(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at = pastCharacter(text, at)) count++;
  return count;
}

/** The offset behind so many characters from an offset, or the end of the text. */
export function pastCharacters(text: string, from: number, characters: number): number {
  let at = from;
  for (let passed = 0; passed < characters && at < text.length; passed++) at = pastCharacter(text, at);
  return at;
}

function pastCharacter(text: string, at: number): number {
  return at + (text.codePointAt(at)! > 0xffff ? 2 : 1);
}
