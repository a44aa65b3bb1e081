import { RedisClient } from "bun";

export interface RedisLinkOptions {
  /** `redis://user:password@host:port/database`, or `rediss://` over TLS. */
  readonly url: string;
  readonly connectMs?: number;
  /** For servers whose certificate is not signed by an authority that the system trusts. */
  readonly tls?: { readonly ca?: string; readonly rejectUnauthorized?: boolean };
}

/**
 * One connection to Redis or Valkey, opened when it is first needed and reopened when it was lost. Commands are not queued: a
 * command fails at once where there is no connection. The link has no deadline of its own; a caller that gives up on a command
 * drops the connection. A dropped connection stays open for a while, so that late replies can still be undone, but new commands
 * never wait behind it.
 */
export class RedisLink {
  private client: RedisClient | null = null;
  /** The same client as soon as it is connected. */
  private live: RedisClient | null = null;
  private connecting: Promise<RedisClient> | null = null;
  private closed = false;
  /** Dropped and not yet closed, oldest first. */
  private readonly dropped = new Map<RedisClient, ReturnType<typeof setTimeout>>();
  /** The number of commands sent. */
  commands = 0;
  /** Sent on every new connection before any other command; nothing waits for its reply. */
  greeting: ((send: LinkSend) => Promise<void>) | null = null;

  constructor(private readonly options: RedisLinkOptions) {}

  async send(command: string, parts: readonly string[]): Promise<unknown> {
    // A lost client is replaced, not reconnected.
    if (this.live !== null && !this.live.connected) this.forget(this.live);
    return this.sendOn(this.live ?? (await (this.connecting ??= this.connect())), command, parts);
  }

  /** Runs a script, which the server most likely has cached already. */
  async run(script: Script, keys: readonly string[], values: readonly (string | number)[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...values.map(String)];
    try {
      return await this.send("EVALSHA", [script.digest, ...rest]);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return this.send("EVAL", [script.text, ...rest]);
    }
  }

  /** The next command opens a new connection. */
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

  /** Closes every connection and fails all pending commands. */
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
    if (this.client !== client) throw new Error("The connection to Redis was dropped while it was being opened.");
    this.live = client;
    // A failure does not matter: the next connection sends it again.
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
/** A little longer than an unavailable server is left alone: late replies have arrived by then. */
const droppedMs = 12_000;

export type LinkSend = (command: string, parts: readonly string[]) => Promise<unknown>;

export interface Script {
  readonly text: string;
  readonly digest: string;
}

export function script(text: string): Script {
  return { text, digest: new Bun.CryptoHasher("sha1").update(text).digest("hex") };
}
