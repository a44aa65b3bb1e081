/**
 * What is left of a text once everything that a guesser tries first is taken out: well-known words, rows of the keyboard and of the
 * alphabet, repetitions, and names that the asker knows. A secret must be long enough in what is left.
 */
export function unguessableLength(text: string, knownNames: readonly string[] = []): number {
  let rest = text.toLowerCase();
  for (const word of [...knownNames.map((name) => name.toLowerCase()), ...wellKnown]) {
    if (word.length >= 3) rest = rest.replaceAll(word, "");
  }
  return withoutRuns(withoutRepetition(rest)).length;
}

/** Values that tools of this kind shipped with, that documents use as examples, and that lists of leaked passwords begin with. */
const wellKnown = [
  ..."change_me change-me changeme passphrase password passw0rd p@ssw0rd letmein welcome qwertyuiop qwerty qwertz asdfgh zxcvbn".split(" "),
  ..."administrator admin root secret token example default your-key your_key your-token your_token master test sluice gateway".split(" "),
  ..."iloveyou monkey dragon football baseball sunshine princess sk-1234 abc123 123123 111111 000000 trustno1 correcthorsebatterystaple".split(
    " ",
  ),
];

/** `abcabcabc` says no more than `abc`. */
function withoutRepetition(text: string): string {
  for (let length = 1; length <= text.length / 2; length++) {
    const unit = text.slice(0, length);
    if (unit.repeat(Math.ceil(text.length / length)).startsWith(text)) return unit;
  }
  return text;
}

/** A character counts unless it goes on with a row: `aaa`, `abc` and `321` say no more than their first two. */
function withoutRuns(text: string): string {
  let rest = "";
  let stepBefore = Number.NaN;
  for (let at = 0; at < text.length; at++) {
    const step = text.charCodeAt(at) - text.charCodeAt(at - 1);
    if (step !== stepBefore || Math.abs(step) > 1) rest += text.charAt(at);
    stepBefore = step;
  }
  return rest;
}
