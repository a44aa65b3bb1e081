import type { Dialect } from "../../dialects/dialect.ts";
import type { Channel } from "../../channels/channel.ts";
import type { Send } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";

/** Requests the list of models of a channel. */
export async function discoverModels(channel: Channel, dialect: Dialect | undefined, send: Send): Promise<readonly string[] | Failure> {
  const path = dialect?.models?.path(channel.address) ?? null;
  if (path === null || dialect?.models === undefined) {
    return failure("misconfigured", "this channel cannot list its models; name them in `models`");
  }
  const exchange = send(
    {
      method: "GET",
      url: channel.address.baseUrl + path + channel.address.query,
      headers: { accept: "application/json", ...channel.headers },
      body: null,
    },
    channel,
    channel.credentials[0] ?? "",
  );
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    exchange.abort();
  }, discoveryMs);
  const reply = await exchange.reply;
  const body = isFailure(reply) ? reply : await reply.bytes(listBytesMax);
  clearTimeout(timer);
  if (late) return failure("timed_out", `no list of models within ${discoveryMs} ms`);
  if (isFailure(reply)) return reply;
  if (isFailure(body)) return body;
  const text = new TextDecoder().decode(body);
  if (reply.status !== 200) {
    const refusal = { status: reply.status, header: (name: string) => reply.header(name), body: text };
    return dialect.chat?.explain(refusal) ?? failure("bad_response", `status ${reply.status}`);
  }
  return dialect.models.read(text) ?? failure("bad_response", "the list of models could not be read");
}

const discoveryMs = 10_000;
const listBytesMax = 16 * 1024 * 1024;
