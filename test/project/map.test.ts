import { expect, test } from "bun:test";
import { mapPage } from "../../scripts/map.ts";

test("docs/map.md draws the folders as they import each other (sh bin/bun scripts/docs.ts writes it)", async () => {
  expect(await Bun.file(new URL("../../docs/map.md", import.meta.url)).text()).toBe(mapPage());
});
