import { afterAll, describe, expect, test } from "bun:test";
import { makeFetchText, type TextRequest } from "../../src/net/client/fetch-text.ts";

const asked: string[] = [];
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    const { pathname } = new URL(request.url);
    asked.push(`${request.method} ${pathname} ${await request.text()}`);
    if (pathname === "/elsewhere") return Response.redirect("/landed", 302);
    if (pathname === "/large") return new Response("x".repeat(2000));
    if (pathname === "/silent") return new Promise<Response>(() => {});
    return Response.json({ ok: true });
  },
});
afterAll(() => server.stop(true));

const nowMs = (): number => performance.now();
const patient = makeFetchText({ nowMs });
const get = (path: string, more: Partial<TextRequest> = {}, fetchText = patient) =>
  fetchText({
    method: "GET",
    url: `http://127.0.0.1:${server.port}${path}`,
    headers: {},
    body: null,
    reach: "any",
    bytesMax: 1000,
    ...more,
  });

describe("a text of another system", () => {
  test("is fetched whole, and a body is sent along", async () => {
    expect(await get("/a")).toMatchObject({ ok: true, status: 200, body: '{"ok":true}' });
    await get("/b", { method: "POST", body: "x=1" });
    expect(asked).toEqual(["GET /a ", "POST /b x=1"]);
  });

  test("is not fetched from where a redirect leads", async () => {
    expect(await get("/elsewhere")).toMatchObject({ ok: true, status: 302 });
    expect(asked).not.toContain("GET /landed ");
  });

  test("that is too long, or does not come, is a problem", async () => {
    expect(await get("/large")).toMatchObject({ ok: false });
    const hasty = makeFetchText({ nowMs, timeoutMs: 50 });
    expect(await get("/silent", {}, hasty)).toEqual({ ok: false, problem: "there was no answer within 50 ms" });
  });

  test("is not fetched from an address that is out of reach", async () => {
    const before = asked.length;
    expect(await get("/private", { reach: "public" })).toMatchObject({ ok: false });
    expect(await get("/", { url: "http://169.254.169.254/latest" })).toMatchObject({ ok: false });
    expect(asked.length).toBe(before);
  });
});
