/**
 * A language as the recognizer lists it: with a region. A client mostly names the language alone, which gets its most spoken variety; a
 * tag with a region is sent as it is.
 */
export function regionalTag(tag: string): string {
  if (tag.includes("-")) return tag;
  return own.get(tag) ?? likely(tag);
}

function likely(code: string): string {
  try {
    const { region } = new Intl.Locale(code).maximize();
    return region === undefined ? code : `${code}-${region}`;
  } catch {
    return code;
  }
}

/** Where the recognizer's list has another tag (https://cloud.google.com/speech-to-text/docs/speech-to-text-supported-languages). */
const own: ReadonlyMap<string, string> = new Map([
  ["zh", "cmn-Hans-CN"],
  ["yue", "yue-Hant-HK"],
  ["he", "iw-IL"],
  ["tl", "fil-PH"],
  ["pa", "pa-Guru-IN"],
]);
