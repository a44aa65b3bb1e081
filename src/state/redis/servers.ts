import { RedisClient } from "bun";
import { StorageError } from "../../gateway/storage.ts";
import { serverAddresses } from "../../servers/addresses.ts";
import { AllFailed } from "../../servers/first-to-succeed.ts";
import { PrimaryChoice } from "../../servers/primary-choice.ts";

export interface RedisServersOptions {
  /**
   * `redis://user:password@host:port/database`, or `rediss://` over TLS; with several hosts for a primary and its replicas. Or
   * `redis+sentinel://host:port,host:port/name/database`, where Sentinels know the primary of that name.
   */
  readonly url: string;
  readonly connectMs?: number;
  /** For servers whose certificate is not signed by an authority that the system trusts. */
  readonly tls?: { readonly ca?: string; readonly rejectUnauthorized?: boolean };
}

/** The servers that an address names. With several of them, or with Sentinels, only a primary is used; the last one comes first. */
export class RedisServers {
  /** Whether another server may be the primary. */
  private readonly several: boolean;
  private readonly choice: PrimaryChoice;
  private readonly sentinel: SentinelAddress | null;

  constructor(private readonly options: RedisServersOptions) {
    this.sentinel = sentinelAddress(options.url);
    const hosts = serverAddresses(this.sentinel?.url ?? options.url);
    if (hosts === null) throw wrongAddress();
    this.choice = new PrimaryChoice(hosts, staggerMs);
    this.several = this.sentinel !== null || hosts.length > 1;
  }

  async open(): Promise<RedisClient> {
    const { sentinel } = this;
    const { inOrder } = this.choice;
    try {
      return await this.choice.connect(
        ({ url }) => (sentinel === null ? this.connect(url) : this.throughSentinel(url, sentinel)),
        (late) => late.close(),
      );
    } catch (error) {
      if (!(error instanceof AllFailed)) throw error;
      if (inOrder.length === 1) throw error.errors[0];
      throw new Error(inOrder.map(({ host }, at) => `${host}: ${messageOf(error.errors[at])}`).join("; "), { cause: error });
    }
  }

  private async throughSentinel(url: string, { primary, name }: SentinelAddress): Promise<RedisClient> {
    const sentinel = await this.opened(url);
    const found: unknown = await this.inTime(sentinel, sentinel.send("SENTINEL", ["GET-MASTER-ADDR-BY-NAME", name])).finally(() =>
      sentinel.close(),
    );
    const [host, port] = Array.isArray(found) ? (found as readonly unknown[]) : [];
    if (typeof host !== "string" || typeof port !== "string") throw new Error(`Sentinel knows no primary named ${name}.`);
    return this.connect(primary(host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`));
  }

  private async connect(url: string): Promise<RedisClient> {
    const client = await this.opened(url);
    if (this.several && !(await this.isPrimary(client))) {
      client.close();
      throw new Error("It is a replica.");
    }
    return client;
  }

  /** One that may not be asked is believed to be one: it says so itself when it takes no writes. */
  private async isPrimary(client: RedisClient): Promise<boolean> {
    const role: unknown = await this.inTime(
      client,
      client.send("ROLE", []).catch((error: unknown) => {
        if (client.connected) return null;
        throw error;
      }),
    );
    return !Array.isArray(role) || role[0] === "master";
  }

  private async opened(url: string): Promise<RedisClient> {
    const { connectMs = connectMsDefault, tls } = this.options;
    const client = new RedisClient(url, {
      connectionTimeout: connectMs,
      autoReconnect: false,
      enableOfflineQueue: false,
      maxRetries: 0,
      ...(tls === undefined ? {} : { tls: { ...tls } }),
    });
    await client.connect();
    return client;
  }

  /** A server that stops answering is closed, which rejects what was asked. */
  private async inTime<T>(client: RedisClient, reply: Promise<T>): Promise<T> {
    const timer = setTimeout(() => client.close(), this.options.connectMs ?? connectMsDefault);
    return reply.finally(() => clearTimeout(timer));
  }
}

interface SentinelAddress {
  /** The address of the Sentinels. The user and the password are those of Redis. */
  readonly url: string;
  readonly name: string;
  readonly primary: (host: string) => string;
}

function sentinelAddress(address: string): SentinelAddress | null {
  if (!/^rediss?\+sentinel:/.test(address)) return null;
  const found = /^(rediss?)\+sentinel:\/\/(?:([^/?#]*)@)?([^@/?#]+)\/([^/?#]+)(?:\/(\d+))?$/.exec(address);
  if (found === null) throw wrongAddress();
  const [, scheme, user = "", hosts, name, database = "0"] = found;
  return {
    url: `${scheme}://${hosts}`,
    name: decodeURIComponent(name!),
    primary: (host) => `${scheme}://${user === "" ? "" : `${user}@`}${host}/${database}`,
  };
}

/** The address may contain a password, so that it is not repeated. */
function wrongAddress(): StorageError {
  return new StorageError(
    "invalid",
    "The address of `state` is wrong: write redis://host:6379, redis://host1:6379,host2:6379 for a primary and its replicas, or redis+sentinel://host1:26379,host2:26379/name.",
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const connectMsDefault = 100;
/** Longer than a healthy server takes; two that hang leave enough of the 100 ms that a command may take. */
const staggerMs = 25;
