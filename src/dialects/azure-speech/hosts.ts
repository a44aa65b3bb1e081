import type { Address } from "../../channels/channel.ts";

/**
 * Where speech is made. A region has a host of its own for that, whose name follows from the one that transcribes; a resource with a
 * domain of its own has a path instead (https://learn.microsoft.com/azure/ai-services/speech-service/speech-services-private-link and
 * …/sovereign-clouds).
 */
export function speechAddress({ baseUrl, speechPath }: Pick<Address, "baseUrl" | "speechPath">): string {
  const [, region, cloud] = /^https:\/\/([a-z\d-]{1,63})\.api\.cognitive\.(microsoft\.com|microsoft\.us|azure\.cn)$/.exec(baseUrl) ?? [];
  const domain = cloud === undefined ? undefined : speechDomains[cloud];
  if (region !== undefined && domain !== undefined) return `https://${region}.tts.speech.${domain}${regionalPath}`;
  const isSpeechHost = /^https:\/\/[^/]{1,200}\.tts\.speech\.[^/]{1,100}$/.test(baseUrl);
  return baseUrl + (isSpeechHost ? regionalPath : speechPath);
}

const regionalPath = "/cognitiveservices/v1";
const speechDomains: Readonly<Record<string, string | undefined>> = {
  "microsoft.com": "microsoft.com",
  "microsoft.us": "azure.us",
  "azure.cn": "azure.cn",
};
