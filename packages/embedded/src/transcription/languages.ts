/** The languages of the multilingual Whisper models: Whisper's code (`jw`, not `jv`, for Javanese) and the English name. */
export const languages: ReadonlyMap<string, string> = new Map(
  `en english, zh chinese, de german, es spanish, ru russian, ko korean, fr french, ja japanese, pt portuguese, tr turkish, pl polish,
  ca catalan, nl dutch, ar arabic, sv swedish, it italian, id indonesian, hi hindi, fi finnish, vi vietnamese, he hebrew, uk ukrainian,
  el greek, ms malay, cs czech, ro romanian, da danish, hu hungarian, ta tamil, no norwegian, th thai, ur urdu, hr croatian,
  bg bulgarian, lt lithuanian, la latin, mi maori, ml malayalam, cy welsh, sk slovak, te telugu, fa persian, lv latvian, bn bengali,
  sr serbian, az azerbaijani, sl slovenian, kn kannada, et estonian, mk macedonian, br breton, eu basque, is icelandic, hy armenian,
  ne nepali, mn mongolian, bs bosnian, kk kazakh, sq albanian, sw swahili, gl galician, mr marathi, pa punjabi, si sinhala, km khmer,
  sn shona, yo yoruba, so somali, af afrikaans, oc occitan, ka georgian, be belarusian, tg tajik, sd sindhi, gu gujarati, am amharic,
  yi yiddish, lo lao, uz uzbek, fo faroese, ht haitian creole, ps pashto, tk turkmen, nn nynorsk, mt maltese, sa sanskrit,
  lb luxembourgish, my myanmar, bo tibetan, tl tagalog, mg malagasy, as assamese, tt tatar, haw hawaiian, ln lingala, ha hausa,
  ba bashkir, jw javanese, su sundanese`
    .split(",")
    .map((entry) => {
      const [code = "", ...name] = entry.trim().split(" ");
      return [code, name.join(" ")];
    }),
);

const aliases: ReadonlyMap<string, string> = new Map([
  ["jv", "jw"],
  ["iw", "he"],
  ["nb", "no"],
  ["fil", "tl"],
  ["burmese", "my"],
  ["valencian", "ca"],
  ["flemish", "nl"],
  ["haitian", "ht"],
  ["letzeburgesch", "lb"],
  ["pushto", "ps"],
  ["panjabi", "pa"],
  ["moldavian", "ro"],
  ["moldovan", "ro"],
  ["sinhalese", "si"],
  ["castilian", "es"],
  ["mandarin", "zh"],
  ...[...languages].map(([code, name]) => [name, code] as const),
]);

/** Whisper's code for a code, a regional tag (`pt-BR`) or an English name; null if Whisper does not support the language. */
export function languageCode(asked: string): string | null {
  const tag = asked.trim().toLowerCase();
  const base = tag.split(/[-_]/, 1)[0]!;
  for (const key of [tag, base]) {
    const code = languages.has(key) ? key : aliases.get(key);
    if (code !== undefined) return code;
  }
  return null;
}

/** Scripts without spaces between words: each character counts as a word. */
export const withoutSpaces: ReadonlySet<string> = new Set(["zh", "ja", "th", "lo", "my", "km"]);
