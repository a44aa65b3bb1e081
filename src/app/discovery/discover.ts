import type { Dialect } from "../../dialects/dialect.ts";
import type { Channel } from "../../channels/channel.ts";
import type { Send } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { readWithin } from "../../net/client/read-within.ts";

/** Requests the list of models of a channel, page by page. */
export async function discoverModels(channel: Channel, dialect: Dialect | undefined, send: Send): Promise<readonly string[] | Failure> {
  const path = dialect?.models?.path(channel.address) ?? null;
  if (path === null || dialect?.models === undefined) {
    return failure("misconfigured", "this channel cannot list its models; name them in `models`");
  }
  const models: string[] = [];
  let more: string | null = "";
  for (let page = 0; more !== null && page < pagesMax; page++) {
    const body = await requestPage(channel, dialect, path + more, send);
    if (typeof body !== "string") return body;
    const listed = dialect.models.read(body);
    if (listed === null) return failure("bad_response", "the list of models could not be read");
    models.push(...listed);
    more = dialect.models.next?.(body) ?? null;
  }
  return models;
}

async function requestPage(channel: Channel, dialect: Dialect, path: string, send: Send): Promise<string | Failure> {
  const exchange = send(
    {
      method: "GET",
      url: channel.address.baseUrl + path + channel.address.query,
      headers: { accept: "application/json", ...dialect.models?.headers, ...channel.headers },
      body: null,
    },
    channel,
    channel.credentials[0] ?? "",
  );
  const read = await readWithin(exchange, discoveryMs, listBytesMax);
  if (read === "late") return failure("timed_out", `no list of models within ${discoveryMs} ms`);
  if (isFailure(read)) return read;
  const { reply, body } = read;
  if (isFailure(body)) return body;
  const text = new TextDecoder().decode(body);
  if (reply.status === 200) return text;
  const refusal = { status: reply.status, header: (name: string) => reply.header(name), body: text };
  return dialect.chat?.explain(refusal) ?? failure("bad_response", `status ${reply.status}`);
}

const discoveryMs = 10_000;
const listBytesMax = 16 * 1024 * 1024;
/** A list that never ends must not be read for ever. */
const pagesMax = 20;
