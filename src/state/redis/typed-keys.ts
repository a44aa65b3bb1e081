import type { RedisLink, Script } from "./link.ts";

/** A key in Redis, and the type of its value. */
export interface TypedKey {
  readonly name: string;
  readonly kind: "hash" | "zset";
}

/**
 * Runs a script. A key that holds a value of another type is deleted: the keys are ours, nothing in Redis has to survive, and a
 * limit that fails forever would be no limit.
 */
export async function runOnTypedKeys(
  link: RedisLink,
  script: Script,
  keys: readonly TypedKey[],
  values: readonly (string | number)[],
): Promise<unknown> {
  const run = (): Promise<unknown> =>
    link.run(
      script,
      keys.map(({ name }) => name),
      values,
    );
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("WRONGTYPE"))) throw error;
    for (const { name, kind } of keys) if ((await link.send("TYPE", [name])) !== kind) await link.send("DEL", [name]);
    return run();
  }
}
