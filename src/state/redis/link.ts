import { RedisClient } from "bun";

export interface RedisLinkOptions {
  /** `redis://user:password@host:port/database`, or `rediss://` over TLS. */
  readonly url: string;
  readonly connectMs?: number;
  /** For servers whose certificate is not signed by anybody the system knows. */
  readonly tls?: { readonly ca?: string; readonly rejectUnauthorized?: boolean };
}

/**
 * One connection to Redis or Valkey, made when it is needed and made again when it was lost. It holds nothing back for
 * better times: a command fails at once where there is no connection. It has no deadline of its own; whoever gives up on a
 * command drops the connection. What was sent on it may be answered for a while yet, so that what a slow server did all the
 * same can be undone; new commands never wait behind it.
 */
export class RedisLink {
  private client: RedisClient | null = null;
  /** The same one as soon as it is connected. */
  private live: RedisClient | null = null;
  private connecting: Promise<RedisClient> | null = null;
  private closed = false;
  /** Dropped, and not yet closed; the oldest first. */
  private readonly dropped = new Map<RedisClient, ReturnType<typeof setTimeout>>();
  /** How many commands were sent. */
  commands = 0;
  /** What is sent on every new connection before anything else; nothing waits for its answer. */
  greeting: ((send: LinkSend) => Promise<void>) | null = null;

  constructor(private readonly options: RedisLinkOptions) {}

  async send(command: string, parts: readonly string[]): Promise<unknown> {
    // One that was lost is not mended but replaced.
    if (this.live !== null && !this.live.connected) this.forget(this.live);
    return this.sendOn(this.live ?? (await (this.connecting ??= this.connect())), command, parts);
  }

  /** Runs a script that the server most likely knows already. */
  async run(script: Script, keys: readonly string[], values: readonly (string | number)[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...values.map(String)];
    try {
      return await this.send("EVALSHA", [script.digest, ...rest]);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return this.send("EVAL", [script.text, ...rest]);
    }
  }

  /** The next command makes a new connection. */
  drop(): void {
    const { client, live } = this;
    if (client === null) return;
    this.forget(client);
    if (live !== client) {
      client.close();
      return;
    }
    const [oldest] = this.dropped.keys();
    if (oldest !== undefined && this.dropped.size >= droppedMax) this.end(oldest);
    const timer = setTimeout(() => this.end(client), droppedMs);
    timer.unref();
    this.dropped.set(client, timer);
  }

  /** Ends every connection and fails all that waits for it. */
  close(): void {
    this.closed = true;
    const { client } = this;
    if (client !== null) {
      this.forget(client);
      client.close();
    }
    for (const late of this.dropped.keys()) this.end(late);
  }

  private async sendOn(client: RedisClient, command: string, parts: readonly string[]): Promise<unknown> {
    this.commands += 1;
    return (await client.send(command, [...parts])) as unknown;
  }

  private end(client: RedisClient): void {
    clearTimeout(this.dropped.get(client));
    this.dropped.delete(client);
    client.close();
  }

  private async connect(): Promise<RedisClient> {
    const { url, connectMs = 100, tls } = this.options;
    if (this.closed) throw new Error("The connection to Redis was closed.");
    const client = new RedisClient(url, {
      connectionTimeout: connectMs,
      autoReconnect: false,
      enableOfflineQueue: false,
      maxRetries: 0,
      ...(tls === undefined ? {} : { tls: { ...tls } }),
    });
    this.client = client;
    try {
      await client.connect();
    } catch (error) {
      this.forget(client);
      throw error;
    }
    if (this.client !== client) throw new Error("The connection to Redis was given up while it was being made.");
    this.live = client;
    // The next connection will ask again.
    void this.greeting?.((command, parts) => this.sendOn(client, command, parts)).catch(() => {});
    return client;
  }

  private forget(client: RedisClient): void {
    if (this.client !== client) return;
    this.client = null;
    this.live = null;
    this.connecting = null;
  }
}

const droppedMax = 8;
/** As long as a lost server is left alone, and a little: then it has said what it has to say. */
const droppedMs = 12_000;

export type LinkSend = (command: string, parts: readonly string[]) => Promise<unknown>;

export interface Script {
  readonly text: string;
  readonly digest: string;
}

export function script(text: string): Script {
  return { text, digest: new Bun.CryptoHasher("sha1").update(text).digest("hex") };
}
