// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import { consolePages } from "../../src/admin/console/pages.ts";
import { makeConsoleServer } from "../../src/admin/console/serve-console.ts";
import clientsGuide from "../../docs/guides/clients.md" with { type: "text" };
import { startAdmin, type AdminWorld } from "../support/admin.ts";

let world: AdminWorld;
let page: Response;
let html: string;

beforeAll(async () => {
  world = await startAdmin();
  page = await fetch(`${world.url}/console`);
  html = await page.text();
}, 60_000);

function assetsOf(text: string): readonly string[] {
  return [...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = ""]) => path);
}

describe("the console", () => {
  test("is served to whoever reaches the listener: every page is the same document, and the way in leads to it", async () => {
    const start = await fetch(`${world.url}/`, { redirect: "manual" });
    expect([start.status, start.headers.get("location")]).toEqual([302, "/console"]);
    for (const pattern of Object.values(consolePages)) {
      const response = await fetch(world.url + pattern.replace(/\{\w+\}/, "some%20name"));
      expect([pattern, response.status, await response.text()]).toEqual([pattern, 200, html]);
    }
    expect(world.bugs).toEqual([]);
  });

  test("has a document with nothing inline, under a policy that would not allow it", () => {
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(html).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|\bon\w+=|javascript:/i);
    const policy = page.headers.get("content-security-policy") ?? "";
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]) {
      expect(policy.split("; ")).toContain(rule);
    }
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(page.headers.get("x-content-type-options")).toBe("nosniff");
    expect(page.headers.get("referrer-policy")).toBe("no-referrer");
  });

  test("loads a script, styles and an icon from here, which a browser keeps for as long as it likes, and less than 100 KB in all", async () => {
    const paths = assetsOf(html);
    expect(paths.map((path) => path.replace(/-[0-9a-f]{16}\./, "-HASH."))).toEqual([
      "/console/assets/icon-HASH.svg",
      "/console/assets/app-HASH.css",
      "/console/assets/app-HASH.js",
    ]);
    let bytes = Buffer.byteLength(html);
    for (const path of paths) {
      const plain = await fetch(world.url + path, { headers: { "accept-encoding": "identity" } });
      const packed = await fetch(world.url + path, { headers: { "accept-encoding": "gzip" }, decompress: false });
      expect(packed.headers.get("content-encoding")).toBe("gzip");
      expect(packed.headers.get("cache-control")).toContain("immutable");
      expect(packed.headers.get("content-security-policy")).toContain("default-src 'none'");
      const raw = new Uint8Array(await packed.arrayBuffer());
      expect(gunzipSync(raw).toString()).toBe(await plain.text());
      bytes += raw.length;
      const again = await fetch(world.url + path, { headers: { "if-none-match": packed.headers.get("etag") ?? "" } });
      expect([again.status, await again.text()]).toEqual([304, ""]);
      const head = await fetch(world.url + path, { method: "HEAD" });
      expect([head.status, head.headers.get("content-type")]).toEqual([200, plain.headers.get("content-type")]);
    }
    expect(bytes).toBeLessThan(100_000);
  });

  test("asks nobody else for anything: no other address is in its files but examples and names of XML", async () => {
    for (const path of assetsOf(html)) {
      const text = await (await fetch(world.url + path)).text();
      expect([path, hosts(text).filter((address) => !known.has(address))]).toEqual([path, []]);
    }
  });

  test.each([
    "/console/",
    "/console/nothing",
    "/console/assets/",
    "/console/assets/app.js",
    "/console/assets/../../package.json",
    "/console/assets/%2e%2e/x",
    "/favicon.ico",
  ])("has nothing at %s", async (path) => {
    const called = await world.call("GET", path);
    expect([called.status, (called.json as { error: { code: string } }).error.code]).toEqual([404, "unknown_route"]);
  });

  test("is only read", async () => {
    const called = await world.call("POST", "/console", { body: {} });
    expect([called.status, called.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("is not served under another name of the machine (DNS rebinding)", async () => {
    const called = await world.call("GET", "/console", { headers: { host: "evil.example" } });
    expect(called.status).toBe(421);
  });
});

const hosts = (text: string): readonly string[] => [...text.matchAll(/https?:\/\/[\w.-]+/g)].map(([address]) => address);

/** Names of vocabularies, an example and text to read, which nobody fetches: the content policy would not allow it either. */
const known = new Set(["http://www.w3.org", "https://api.example.com", ...hosts(clientsGuide)]);

test("a console that cannot be built says what to do, and is tried again", async () => {
  const bugs: unknown[] = [];
  let attempts = 0;
  const serve = makeConsoleServer(
    () => {
      attempts += 1;
      return attempts === 1 ? Promise.reject(new Error("no such package")) : Promise.resolve([{ name: "app.js", text: "1" } as const]);
    },
    (error) => bugs.push(error),
  );
  const request = new Request("http://localhost/console");
  const first = await serve(request, "/console", new Headers());
  expect([first?.status, await first?.text()]).toEqual([500, expect.stringContaining("npm install")]);
  expect(bugs).toHaveLength(1);
  expect((await serve(request, "/console", new Headers()))?.status).toBe(200);
});
