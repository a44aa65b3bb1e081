import type { Address } from "../../channels/channel.ts";
import type { Target, UpstreamRequest } from "../dialect.ts";

/** A request of `generateContent`, or of `streamGenerateContent`. */
export function generateRequest(body: UpstreamRequest["body"], stream: boolean, { channel, model, forwarded }: Target): UpstreamRequest {
  return {
    method: "POST",
    url: generateUrl(channel.address, model, stream),
    headers: {
      "content-type": "application/json",
      accept: stream ? "text/event-stream" : "application/json",
      ...forwarded,
      ...channel.headers,
    },
    body,
  };
}

/** Without `alt=sse` a stream is one JSON array. */
export function generateUrl({ baseUrl, chatPath, query }: Address, model: string, stream: boolean): string {
  const name = model.startsWith(listedPrefix) ? model.slice(listedPrefix.length) : model;
  const path = (chatPath.includes("{model}") ? chatPath : usualPath).replace("{model}", () => encodeURIComponent(name));
  if (!stream) return baseUrl + path + query;
  const method = path.replace(/:generateContent$/, ":streamGenerateContent");
  return `${baseUrl}${method}${query === "" ? "?" : `${query}&`}alt=sse`;
}

const usualPath = "/models/{model}:generateContent";
/** The list of models names them with it, and requests may too. */
const listedPrefix = "models/";
