import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import {
  chatDialects,
  compatibilityPage,
  compatibilityRows,
  fixtureFolder,
  type CompatibilityRow,
} from "../../../scripts/compatibility/page.ts";

// Thousands of conversations are translated, which takes longer on a busy machine.
setDefaultTimeout(60_000);

let rows: readonly CompatibilityRow[];

beforeAll(async () => {
  rows = await compatibilityRows();
}, 60_000);

describe("every API of clients over every API of upstreams", () => {
  test.each(chatDialects.map((dialect) => [dialect.name, dialect] as const))(
    "has answers of providers to be tried with: %s",
    (_, dialect) => {
      expect(existsSync(fixtureFolder(dialect))).toBe(true);
    },
  );

  test("loses nothing without a word", () => {
    expect(rows.flatMap(({ surface, dialect, trouble }) => trouble.map((why) => `${surface} over ${dialect}: ${why}`))).toEqual([]);
  });

  test("does what docs/compatibility.md says (sh bin/bun scripts/docs.ts writes it)", async () => {
    expect(await Bun.file(new URL("../../../docs/compatibility.md", import.meta.url)).text()).toBe(compatibilityPage(rows));
  });
});
