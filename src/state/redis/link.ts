import type { RedisClient } from "bun";
import { RedisServers, type RedisServersOptions } from "./servers.ts";

/**
 * One connection to Redis or Valkey, opened when it is first needed and reopened when it was lost. Commands are not queued: a
 * command fails at once where there is no connection. The link has no deadline of its own; a caller that gives up on a command
 * drops the connection. A dropped connection stays open for a while, so that late replies can still be undone, but new commands
 * never wait behind it. Where there are several servers, each new connection leads to the one that is the primary.
 */
export class RedisLink {
  private readonly servers: RedisServers;
  private live: RedisClient | null = null;
  /** The connection that is being opened, as long as it is wanted. */
  private connecting: Promise<RedisClient> | null = null;
  private closed = false;
  /** Dropped and not yet closed, oldest first. */
  private readonly dropped = new Map<RedisClient, ReturnType<typeof setTimeout>>();
  /** The number of commands sent. */
  commands = 0;
  /** Sent on every new connection before any other command; nothing waits for its reply. */
  greeting: ((send: LinkSend) => Promise<void>) | null = null;

  constructor(options: RedisServersOptions) {
    this.servers = new RedisServers(options);
  }

  async send(command: string, parts: readonly string[]): Promise<unknown> {
    // A lost client is replaced, not reconnected.
    if (this.live?.connected === false) this.live = null;
    const client = this.live ?? (await (this.connecting ??= this.connect()));
    try {
      return await this.sendOn(client, command, parts);
    } catch (error) {
      // The server has become a replica, and another one the primary: one of several, or one that the same name leads to by now.
      if (client === this.live && isReadOnly(error)) this.drop();
      throw error;
    }
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
    const { live } = this;
    this.connecting = null;
    this.live = null;
    if (live === null) return;
    const [oldest] = this.dropped.keys();
    if (oldest !== undefined && this.dropped.size >= droppedMax) this.end(oldest);
    const timer = setTimeout(() => this.end(live), droppedMs);
    timer.unref();
    this.dropped.set(live, timer);
  }

  /** Closes every connection and fails all pending commands. */
  close(): void {
    this.closed = true;
    this.connecting = null;
    this.live?.close();
    this.live = null;
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

  private connect(): Promise<RedisClient> {
    const connecting: Promise<RedisClient> = this.open(() => this.connecting === connecting).finally(() => {
      if (this.connecting === connecting) this.connecting = null;
    });
    return connecting;
  }

  private async open(isWanted: () => boolean): Promise<RedisClient> {
    if (this.closed) throw new Error("The connection to Redis was closed.");
    const client = await this.servers.open();
    if (!isWanted()) {
      client.close();
      throw new Error("The connection to Redis was dropped while it was being opened.");
    }
    this.live = client;
    // A failure does not matter: the next connection sends it again.
    void this.greeting?.((command, parts) => this.sendOn(client, command, parts)).catch(() => {});
    return client;
  }
}

/** What a replica says of writes, also from within a script, or of everything while it has lost its primary. */
function isReadOnly(error: unknown): boolean {
  return error instanceof Error && /\b(READONLY|MASTERDOWN)\b/.test(error.message);
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
