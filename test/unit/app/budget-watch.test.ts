import { expect, test } from "bun:test";
import { BudgetWatch } from "../../../src/app/budget-watch.ts";
import type { KeyQuery, Storage } from "../../../src/gateway/storage.ts";
import type { Key } from "../../../src/keys/key.ts";
import { defaultKey } from "../../../src/keys/stored-key.ts";

const keyNamed = (name: string): Key => ({ ...defaultKey, id: name, name });

/** As the store does it: by id, and at most 200 keys in a page. */
function listing(ids: readonly string[]): Storage {
  const list = async ({ after, limit }: KeyQuery): Promise<readonly Key[]> =>
    ids
      .filter((id) => id > (after ?? ""))
      .slice(0, Math.min(limit, 200))
      .map(keyNamed);
  return { keys: { list } } as unknown as Storage;
}

test("a thousand keys of the store are looked at, and not the first page of them alone", async () => {
  const ids = Array.from({ length: 1_100 }, (_, at) => `k-${String(at).padStart(4, "0")}`);
  const { promise, resolve } = Promise.withResolvers<readonly Key[]>();
  const watch = new BudgetWatch({
    reports: listing(ids),
    wallMs: () => 1e12,
    fileKeys: () => [keyNamed("file:own")],
    attached: (key) => key,
    groups: () => [],
    onLook: async (_, keys) => resolve(keys),
  });
  watch.recent();
  expect((await promise).map(({ id }) => id)).toEqual(["file:own", ...ids.slice(0, 1_000)]);
});
