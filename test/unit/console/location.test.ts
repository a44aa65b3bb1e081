import { describe, expect, test } from "bun:test";
import { consolePages, type ConsolePage } from "../../../src/admin/console/pages.ts";
import { pathTo, placeOf } from "../../../src/console/core/location.ts";

describe("the address of a page", () => {
  test("leads to that page, with the values in it, however they are written", () => {
    for (const page of Object.keys(consolePages) as ConsolePage[]) {
      const params = { id: "a/b ?#%", name: "<b>ä</b>" };
      const found = placeOf(pathTo(page, params), "");
      expect(found.page).toBe(page);
      for (const [name, value] of Object.entries(found.params)) expect(value).toBe(params[name as keyof typeof params]);
    }
  });

  test("carries a query without what is not set", () => {
    expect(pathTo("requests", {}, { model: "a b", key: "" })).toBe("/console/requests?model=a+b");
    expect(placeOf("/console/requests", "?model=a+b").query.get("model")).toBe("a b");
  });

  test("of a literal page is not taken for a parameter of another", () => {
    expect(placeOf("/console/settings/audit", "").page).toBe("audit");
  });

  test.each(["/", "/console/", "/console/nothing", "/console/requests/", "/console/requests/a/b", "/admin/api/keys", "/console/keys/%zz"])(
    "%s is no page",
    (path) => expect(placeOf(path, "").page).toBeNull(),
  );
});
