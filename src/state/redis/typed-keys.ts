import type { RedisLink, Script } from "./link.ts";

/** A name in Redis, and what we keep under it. */
export interface TypedKey {
  readonly name: string;
  readonly kind: "hash" | "zset";
}

/**
 * Runs a script. Where something else than what we keep lies under one of its names, that goes: the names are ours, nothing in
 * Redis must survive, and a limit that fails for ever would be none.
 */
export async function runOnTypedKeys(
  link: RedisLink,
  script: Script,
  names: readonly TypedKey[],
  values: readonly (string | number)[],
): Promise<unknown> {
  const run = (): Promise<unknown> =>
    link.run(
      script,
      names.map(({ name }) => name),
      values,
    );
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("WRONGTYPE"))) throw error;
    for (const { name, kind } of names) if ((await link.send("TYPE", [name])) !== kind) await link.send("DEL", [name]);
    return run();
  }
}
