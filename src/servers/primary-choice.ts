import type { ServerAddress } from "./addresses.ts";
import { firstToSucceed } from "./first-to-succeed.ts";

/** Connects to whichever of some servers is the primary. The last one that was comes first. */
export class PrimaryChoice {
  private last: ServerAddress | null = null;

  constructor(
    private readonly servers: readonly ServerAddress[],
    /** How long one server is waited for before the next one is tried as well. */
    private readonly staggerMs: number,
  ) {}

  /** In the order in which they are tried, which is that of the errors in `AllFailed`. */
  get inOrder(): readonly ServerAddress[] {
    const { servers, last } = this;
    return last === null ? servers : [last, ...servers.filter((server) => server !== last)];
  }

  /** `connect` rejects for a server that is no primary. */
  async connect<Connection>(
    connect: (server: ServerAddress) => Promise<Connection>,
    discard: (late: Connection) => void,
  ): Promise<Connection> {
    const attempt = async (server: ServerAddress): Promise<OpenServer<Connection>> => ({ server, connection: await connect(server) });
    const { server, connection } = await firstToSucceed(this.inOrder, attempt, {
      staggerMs: this.staggerMs,
      after,
      discard: (late) => discard(late.connection),
    });
    this.last = server;
    return connection;
  }
}

interface OpenServer<Connection> {
  readonly server: ServerAddress;
  readonly connection: Connection;
}

function after(ms: number, then: () => void): () => void {
  const timer = setTimeout(then, ms);
  return () => clearTimeout(timer);
}
