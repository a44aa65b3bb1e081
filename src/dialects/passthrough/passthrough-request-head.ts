import type { PassthroughRequest } from "../../operations/passthrough/passthrough-request.ts";
import type { Target, UpstreamRequest } from "../dialect.ts";

/** Where a request goes, and with which headers. */
export function passthroughHead(
  ask: PassthroughRequest,
  { channel, model, forwarded }: Target,
): Pick<UpstreamRequest, "method" | "url" | "headers"> {
  const { baseUrl, passthroughPaths, query } = channel.address;
  const accept = ask.stream ? "text/event-stream" : "application/json";
  return {
    method: "POST",
    url: baseUrl + pathOf(ask, passthroughPaths[ask.operation]).replace("{model}", encodeURIComponent(model)) + query,
    headers: { "content-type": ask.form?.type ?? "application/json", accept, ...forwarded, ...channel.headers },
  };
}

/** Images are changed beside where they are made. */
function pathOf({ form }: PassthroughRequest, path: string): string {
  return form === undefined ? path : path.replace(/\/generations$/, `/${form.task}`);
}
