import { startGateway, type Gateway } from "./gateway.ts";
import type { MadeKey, Replicas } from "./replicas.ts";
import type { TestPostgres } from "./servers/postgres.ts";

/**
 * A gateway of its own on the same machine and over the same upstreams, that has nothing to do with the servers which are lost: how
 * long its calls take is the machine's doing.
 */
export async function bystander({ upstream }: Replicas): Promise<Bystander> {
  const key: MadeKey = { id: "bystander", token: "sk-bystander-0123456789abcdef" };
  const gateway = await startGateway({
    config: {
      keys: [{ name: key.id, key: key.token }],
      channels: Object.entries(upstream).map(([name, { url }]) => ({ name, base_url: url, models: "*" })),
      server: { linger: "0ms" },
    },
  });
  return { gateway, key, [Symbol.asyncDispose]: async () => gateway.kill() };
}

export interface Bystander extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly key: MadeKey;
}

/** The server as it is reached over a wire: databases are made past it. */
export function reachedOver(server: TestPostgres, { host, port }: { readonly host: string; readonly port: number }): TestPostgres {
  const urlOf: TestPostgres["urlOf"] = (database, at) => server.urlOf(database, at);
  return { host, port, urlOf, freshDatabase: (like?: string) => server.freshDatabase(like) } as unknown as TestPostgres;
}
