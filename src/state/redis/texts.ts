import type { DistributedTexts } from "../distributed-items.ts";
import type { RedisLink } from "./link.ts";

/** Texts in Redis, each under a name of its own, with a time to live. */
export class RedisTexts implements DistributedTexts {
  constructor(
    private readonly link: Pick<RedisLink, "send">,
    private readonly prefix = "sluice:",
  ) {}

  async put(texts: readonly (readonly [name: string, text: string])[], forMs: number): Promise<void> {
    await Promise.all(texts.map(([name, text]) => this.link.send("SET", [this.prefix + name, text, "PX", String(Math.ceil(forMs))])));
  }

  async get(names: readonly string[], forMs: number): Promise<readonly (string | null)[]> {
    const values = await Promise.all(names.map((name) => this.link.send("GETEX", [this.prefix + name, "PX", String(Math.ceil(forMs))])));
    return values.map((value) => (typeof value === "string" ? value : null));
  }
}
