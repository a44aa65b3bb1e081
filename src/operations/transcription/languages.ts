/** The code of a language, given as a code, as an English name, or with a region (`en-US`), in any case; null if it is unknown. */
export function languageCode(text: string): string | null {
  if (text.length > spellingLengthMax) return null;
  const spelled = text.trim().toLowerCase().replaceAll("_", "-");
  const [primary = ""] = spelled.split("-", 1);
  return codes.get(spelled) ?? (primary !== spelled && primary.length <= 3 ? codes.get(primary) : undefined) ?? null;
}

/** The English name of a language, in lower case; the code of an unknown one. */
export function languageName(code: string): string {
  return names.get(code) ?? code;
}

/** The ISO 639 code of a language, where Whisper has another one. */
export function standardCode(code: string): string {
  return code === "jw" ? "jv" : code;
}

/** Whether words of this language are written without spaces between them. */
export function isUnspaced(code: string | null): boolean {
  return code !== null && unspaced.has(code);
}

const spellingLengthMax = 64;

const unspaced: ReadonlySet<string> = new Set(["zh", "ja", "th", "lo", "my", "km", "yue"]);

/** The codes and names of Whisper, and the three-letter code (ISO 639-3) of each. */
const table: readonly string[] = [
  "en eng english",
  "zh zho chinese",
  "de deu german",
  "es spa spanish",
  "ru rus russian",
  "ko kor korean",
  "fr fra french",
  "ja jpn japanese",
  "pt por portuguese",
  "tr tur turkish",
  "pl pol polish",
  "ca cat catalan",
  "nl nld dutch",
  "ar ara arabic",
  "sv swe swedish",
  "it ita italian",
  "id ind indonesian",
  "hi hin hindi",
  "fi fin finnish",
  "vi vie vietnamese",
  "he heb hebrew",
  "uk ukr ukrainian",
  "el ell greek",
  "ms msa malay",
  "cs ces czech",
  "ro ron romanian",
  "da dan danish",
  "hu hun hungarian",
  "ta tam tamil",
  "no nor norwegian",
  "th tha thai",
  "ur urd urdu",
  "hr hrv croatian",
  "bg bul bulgarian",
  "lt lit lithuanian",
  "la lat latin",
  "mi mri maori",
  "ml mal malayalam",
  "cy cym welsh",
  "sk slk slovak",
  "te tel telugu",
  "fa fas persian",
  "lv lav latvian",
  "bn ben bengali",
  "sr srp serbian",
  "az aze azerbaijani",
  "sl slv slovenian",
  "kn kan kannada",
  "et est estonian",
  "mk mkd macedonian",
  "br bre breton",
  "eu eus basque",
  "is isl icelandic",
  "hy hye armenian",
  "ne nep nepali",
  "mn mon mongolian",
  "bs bos bosnian",
  "kk kaz kazakh",
  "sq sqi albanian",
  "sw swa swahili",
  "gl glg galician",
  "mr mar marathi",
  "pa pan punjabi",
  "si sin sinhala",
  "km khm khmer",
  "sn sna shona",
  "yo yor yoruba",
  "so som somali",
  "af afr afrikaans",
  "oc oci occitan",
  "ka kat georgian",
  "be bel belarusian",
  "tg tgk tajik",
  "sd snd sindhi",
  "gu guj gujarati",
  "am amh amharic",
  "yi yid yiddish",
  "lo lao lao",
  "uz uzb uzbek",
  "fo fao faroese",
  "ht hat haitian creole",
  "ps pus pashto",
  "tk tuk turkmen",
  "nn nno nynorsk",
  "mt mlt maltese",
  "sa san sanskrit",
  "lb ltz luxembourgish",
  "my mya myanmar",
  "bo bod tibetan",
  "tl tgl tagalog",
  "mg mlg malagasy",
  "as asm assamese",
  "tt tat tatar",
  "haw haw hawaiian",
  "ln lin lingala",
  "ha hau hausa",
  "ba bak bashkir",
  "jw jav javanese",
  "su sun sundanese",
  "yue yue cantonese",
];

/** Other names and codes of the same languages: aliases of Whisper, older codes, and the largest member of a group. */
const aliases: Readonly<Record<string, string>> = {
  burmese: "my",
  valencian: "ca",
  flemish: "nl",
  haitian: "ht",
  letzeburgesch: "lb",
  pushto: "ps",
  panjabi: "pa",
  moldavian: "ro",
  moldovan: "ro",
  sinhalese: "si",
  castilian: "es",
  mandarin: "zh",
  farsi: "fa",
  filipino: "tl",
  jv: "jw",
  nb: "no",
  nob: "no",
  iw: "he",
  in: "id",
  ji: "yi",
  fil: "tl",
  cmn: "zh",
  arb: "ar",
  pes: "fa",
  swh: "sw",
  zsm: "ms",
  ekk: "et",
  lvs: "lv",
  khk: "mn",
  npi: "ne",
  pbt: "ps",
  uzn: "uz",
  ydd: "yi",
  plt: "mg",
  azj: "az",
  als: "sq",
};

interface Language {
  readonly code: string;
  readonly threeLetters: string;
  readonly name: string;
}

/** All languages that the gateway knows. */
export const languages: readonly Language[] = table.map((row) => {
  const [code = "", threeLetters = "", ...name] = row.split(" ");
  return { code, threeLetters, name: name.join(" ") };
});

const names: ReadonlyMap<string, string> = new Map(languages.map(({ code, name }) => [code, name]));

const codes: ReadonlyMap<string, string> = new Map([
  ...Object.entries(aliases),
  ...languages.flatMap(({ code, threeLetters, name }) => [[code, code] as const, [threeLetters, code] as const, [name, code] as const]),
]);
