import { startPostgres } from "../test/support/servers/postgres.ts";
import { startRedis } from "../test/support/servers/redis.ts";
import type { Bench } from "./bench.ts";

/** Where several gateways keep limits and receipts together. */
export interface LimitServers {
  readonly store: string;
  readonly state: string;
  stop(): Promise<void>;
}

/** What of a bench it needs. */
export interface LimitServersAsked {
  readonly options: Pick<Bench["options"], "servers">;
  remark(text: string): void;
}

/** Null, with a remark, where this machine has none. */
export async function startLimitServers(bench: LimitServersAsked, scenario: string): Promise<LimitServers | null> {
  const without = (why: string): null => {
    bench.remark(`${scenario}: PostgreSQL and Redis left out: ${why}`);
    return null;
  };
  if (!bench.options.servers) return without("--without-servers");
  const postgres = await startPostgres({ fsync: false });
  if ("skipped" in postgres) return without(postgres.skipped);
  const redis = await startRedis();
  if ("skipped" in redis) {
    await postgres.stop();
    return without(redis.skipped);
  }
  return {
    store: await postgres.freshDatabase(),
    state: redis.url,
    stop: async () => {
      await redis.stop();
      await postgres.stop();
    },
  };
}
