/**
 * The length of a secret without what an attacker tries first: well-known words, sequences of the keyboard and the alphabet, repetitions,
 * and known names.
 */
export function unguessableLength(text: string, knownNames: readonly string[] = []): number {
  let rest = text.toLowerCase();
  for (const word of [...knownNames.map((name) => name.toLowerCase()), ...wellKnown]) {
    if (word.length >= 3) rest = rest.replaceAll(word, "");
  }
  return withoutRuns(withoutRepetition(rest)).length;
}

/** Default values of similar programs, examples in documentation, and the most common leaked passwords. */
const wellKnown = [
  ..."change_me change-me changeme passphrase password passw0rd p@ssw0rd letmein welcome qwertyuiop qwerty qwertz asdfgh zxcvbn".split(" "),
  ..."administrator admin root secret token example default your-key your_key your-token your_token master test sluice gateway".split(" "),
  ..."iloveyou monkey dragon football baseball sunshine princess sk-1234 abc123 123123 111111 000000 trustno1 correcthorsebatterystaple".split(
    " ",
  ),
];

/** `abcabcabc` counts as `abc`. */
function withoutRepetition(text: string): string {
  for (let length = 1; length <= text.length / 2; length++) {
    const unit = text.slice(0, length);
    if (unit.repeat(Math.ceil(text.length / length)).startsWith(text)) return unit;
  }
  return text;
}

/** Leaves out characters that continue a sequence: `aaa`, `abc` and `321` count as their first two characters. */
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
