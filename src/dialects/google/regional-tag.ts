/**
 * A language as the recognizer lists it: with a region. A client mostly names the language alone, which gets its most spoken variety; a
 * tag with a region is sent as it is, unless the list has another one for it.
 */
export function regionalTag(tag: string): string {
  return own.get(tag.toLowerCase()) ?? (tag.includes("-") ? tag : likely(tag));
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
  ["zh-cn", "cmn-Hans-CN"],
  ["zh-hans", "cmn-Hans-CN"],
  ["zh-tw", "cmn-Hant-TW"],
  ["zh-hant", "cmn-Hant-TW"],
  ["zh-hk", "yue-Hant-HK"],
  ["yue", "yue-Hant-HK"],
  ["yue-hk", "yue-Hant-HK"],
  ["he", "iw-IL"],
  ["he-il", "iw-IL"],
  ["tl", "fil-PH"],
  ["tl-ph", "fil-PH"],
  ["pa", "pa-Guru-IN"],
  ["pa-in", "pa-Guru-IN"],
]);
