import type { RedisLink, Script } from "./link.ts";
import { runOnTypedKeys, type TypedKey } from "./typed-keys.ts";

/** A key of a script and the values that belong to it. */
export interface KeyedValues {
  readonly key: TypedKey;
  /** Keys of the same root are on the same node of a cluster. */
  readonly root: string;
  readonly values: readonly (string | number)[];
}

/**
 * Runs scripts that treat each of their keys alike on many keys at once. A server that is a node of a cluster, or a proxy in front of
 * one, rejects keys of several nodes. From then on there is one command for each root.
 */
export class KeyedBatches {
  private isCluster = false;

  constructor(private readonly link: RedisLink) {}

  async run(script: Script, before: readonly (string | number)[], items: readonly KeyedValues[]): Promise<void> {
    if (items.length === 0) return;
    if (this.isCluster) await this.runEachRoot(script, before, items);
    else {
      try {
        await this.runAll(script, before, items);
      } catch (error) {
        if (!this.isOfCluster(error)) throw error;
        await this.runEachRoot(script, before, items);
      }
    }
  }

  /** Runs a script that takes further keys in passing. On a cluster those are left to `otherwise`. */
  async runWith(
    script: Script,
    { keys, values }: { readonly keys: readonly TypedKey[]; readonly values: readonly (string | number)[] },
    items: readonly KeyedValues[],
    otherwise: Script,
  ): Promise<unknown> {
    if (items.length > 0 && !this.isCluster) {
      const allKeys = [...keys, ...items.map(({ key }) => key)];
      const allValues = [...values, ...items.flatMap((item) => item.values)];
      try {
        return await runOnTypedKeys(this.link, script, allKeys, allValues);
      } catch (error) {
        if (!this.isOfCluster(error)) throw error;
      }
    }
    const [reply] = await Promise.all([runOnTypedKeys(this.link, script, keys, values), this.run(otherwise, [], items)]);
    return reply;
  }

  private isOfCluster(error: unknown): boolean {
    if (!(error instanceof Error && error.message.includes("CROSSSLOT"))) return false;
    this.isCluster = true;
    return true;
  }

  private async runEachRoot(script: Script, before: readonly (string | number)[], items: readonly KeyedValues[]): Promise<void> {
    const groups = [...Map.groupBy(items, ({ root }) => root).values()];
    await Promise.all(groups.map(async (group) => this.runAll(script, before, group)));
  }

  private async runAll(script: Script, before: readonly (string | number)[], items: readonly KeyedValues[]): Promise<void> {
    const commands = bounded(items).map(async (some) =>
      runOnTypedKeys(
        this.link,
        script,
        some.map(({ key }) => key),
        [...before, ...some.flatMap(({ values }) => values)],
      ),
    );
    await Promise.all(commands);
  }
}

/** As many items as fit into one command, which must not keep the server busy for long. */
function bounded(items: readonly KeyedValues[]): readonly (readonly KeyedValues[])[] {
  const commands: KeyedValues[][] = [];
  let size = Infinity;
  for (const item of items) {
    if (size + item.values.length > valuesMax) {
      commands.push([]);
      size = 0;
    }
    commands.at(-1)!.push(item);
    size += item.values.length;
  }
  return commands;
}

const valuesMax = 1_000;

/** Collects what is added in one turn, and sends it together. */
export class TurnBatch<Item> {
  private items: Item[] = [];
  private sent: Promise<void> | null = null;

  constructor(private readonly send: (items: readonly Item[]) => Promise<void>) {}

  async add(items: readonly Item[]): Promise<void> {
    for (const item of items) this.items.push(item);
    this.sent ??= Promise.resolve().then(async () => {
      const all = this.items;
      this.items = [];
      this.sent = null;
      await this.send(all);
    });
    await this.sent;
  }
}
