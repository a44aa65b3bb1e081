import { standardCode } from "../../operations/transcription/languages.ts";

/**
 * The locale that a language is transcribed in if the client named no country: the one that most of its speakers live in, except where
 * the service has another (https://learn.microsoft.com/azure/ai-services/speech-service/language-support?tabs=stt). A language that is
 * unknown here is sent as it is.
 */
export function localeOf(language: string): string {
  const code = standardCode(language);
  const known = others[code];
  if (known !== undefined) return known;
  try {
    const { language: name, region } = new Intl.Locale(code).maximize();
    return region === undefined ? code : `${name}-${region}`;
  } catch {
    return code;
  }
}

const others: Readonly<Record<string, string | undefined>> = {
  bn: "bn-IN",
  no: "nb-NO",
  sw: "sw-KE",
  tl: "fil-PH",
  ur: "ur-IN",
  yue: "yue-CN",
};
