import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { adminRoutes, withRoutes } from "../../scripts/docs.ts";
import { openApiDocument } from "../../src/admin/openapi.ts";
import { manageStatuses } from "../../src/admin/admin-error.ts";

const root = join(import.meta.dir, "../..");
const page = readFileSync(join(root, "docs/admin.md"), "utf8");

test("docs/admin.md lists the routes that there are (sh bin/bun scripts/docs.ts writes them)", () => {
  expect(page).toBe(withRoutes(page));
});

test("the routes of docs/admin.md are those of the OpenAPI document", () => {
  const { paths } = openApiDocument(adminRoutes(), "0") as {
    paths: Record<string, Record<string, { "x-sluice-access": string; "x-sluice-group-admins"?: boolean }>>;
  };
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) =>
        `${method.toUpperCase()} ${path} ${operation["x-sluice-access"]}${operation["x-sluice-group-admins"] === true ? ", group_admin" : ""}`,
    ),
  );
  // What changes the caller alone is for every account, and the document calls that `viewer`.
  const listed = [...page.matchAll(/^\| (GET|POST|PUT|PATCH|DELETE) \| `([^`]+)` \| ([^|]+) \|/gm)].map(
    ([, method, path, who]) => `${method} ${path} ${who === "every account" ? "viewer" : who}`,
  );
  expect(listed.length).toBeGreaterThan(30);
  expect(listed.toSorted()).toEqual(documented.toSorted());
});

test("docs/admin.md lists every error code that the admin API gives", () => {
  const names = readdirSync(join(root, "src/admin"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const sources = names.map((name) => readFileSync(join(root, "src/admin", name), "utf8"));
  const refusals = sources.flatMap((text) => [...text.matchAll(/new AdminError\(\s*\d{3},\s*"([a-z_]+)"/g)].map((match) => match[1]!));
  const codes = new Set([...refusals, ...Object.keys(manageStatuses)]);
  expect(codes.size).toBeGreaterThan(25);
  expect([...codes].filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
});
