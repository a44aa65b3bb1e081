import { hintsMax, type Hint, type PublishedHint, type DistributedHints } from "../../limits/distributed-hints.ts";
import { runOnTypedKeys, type TypedKey } from "./typed-keys.ts";
import type { RedisLink } from "./link.ts";
import { readHintsScript, publishHintScript } from "./scripts.ts";

/** Hints in Redis, in one sorted set ordered by the time at which they end, on the server's clock. */
export class RedisHints implements DistributedHints {
  private readonly names: readonly TypedKey[];

  constructor(
    private readonly link: RedisLink,
    { prefix = "sluice:" }: { readonly prefix?: string } = {},
  ) {
    this.names = [{ name: `${prefix}hints`, kind: "zset" }];
  }

  async publish({ scope, cause, forMs }: Hint): Promise<string> {
    const text = JSON.stringify([scope, cause]);
    const until = await runOnTypedKeys(this.link, publishHintScript, this.names, [text, Math.ceil(forMs), hintsMax]);
    return `${text} ${Number(until)}`;
  }

  async read(): Promise<readonly PublishedHint[]> {
    const reply = await runOnTypedKeys(this.link, readHintsScript, this.names, [hintsMax]);
    if (!Array.isArray(reply)) throw new Error("Redis sent an unexpected reply.");
    const [now, ...pairs] = reply as readonly unknown[];
    const hints: PublishedHint[] = [];
    for (let at = 0; at + 1 < pairs.length; at += 2) {
      const hint = hintOf(pairs[at], Number(pairs[at + 1]), Number(now));
      if (hint !== null) hints.push(hint);
    }
    return hints;
  }
}

/** Entries that are not ours are ignored. */
function hintOf(text: unknown, untilMs: number, nowMs: number): PublishedHint | null {
  if (typeof text !== "string" || !Number.isFinite(untilMs - nowMs)) return null;
  const parts = parsed(text);
  if (!Array.isArray(parts)) return null;
  const [scope, cause] = parts as readonly unknown[];
  if (typeof scope !== "string" || typeof cause !== "string") return null;
  return { scope, cause, forMs: untilMs - nowMs, id: `${text} ${untilMs}` };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
