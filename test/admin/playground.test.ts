// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import type { Services } from "../../src/admin/services.ts";
import { codeOf, startAdmin, type AdminWorld } from "../support/admin.ts";

type Sent = Parameters<Services["dataPlane"]>;

const key = "sk-gw_playground-canary-0123456789";
const chat = { key, request: { model: "m", messages: [] } };
let world: AdminWorld;
let sent: Sent[] = [];
let answer: () => Response | null = () => null;

beforeAll(async () => {
  world = await startAdmin({
    services: {
      dataPlane: async (...given) => {
        sent.push(given);
        return answer();
      },
    },
  });
  await world.account("ada", "admin");
});

const play = async (body: unknown, headers?: Readonly<Record<string, string>>) => {
  sent = [];
  return world.call("POST", "/admin/api/playground/chat", { headers: headers ?? (await world.token("admin")), body });
};

describe("the playground", () => {
  test("sends a request to the port for clients, as a client would, and passes the answer on with the id of the call", async () => {
    answer = () => Response.json({ ok: true }, { headers: { "x-request-id": "req-1", "set-cookie": "a=b" } });
    const called = await play(chat);
    expect([called.status, called.text]).toEqual([200, `{"ok":true}`]);
    expect(["x-sluice-request", "set-cookie"].map((name) => called.headers.get(name))).toEqual(["req-1", null]);
    const [[path, { headers, body }] = ["", {} as Sent[1]]] = sent;
    expect([path, headers["authorization"], body]).toEqual(["/v1/chat/completions", `Bearer ${key}`, JSON.stringify(chat.request)]);
  });

  test("passes a refusal of the key on, and it is not one of the session", async () => {
    answer = () => Response.json({ error: { code: "invalid_api_key" } }, { status: 401 });
    const called = await play(chat);
    expect([called.status, called.headers.get("x-sluice-request")]).toEqual([401, ""]);
  });

  test.each([
    ["text/html", "application/octet-stream"],
    ["text/html; charset=utf-8", "application/octet-stream"],
    ["image/svg+xml", "application/octet-stream"],
    ["text/javascript", "application/octet-stream"],
    ["text/event-stream; charset=utf-8", "text/event-stream; charset=utf-8"],
    ["audio/mpeg", "audio/mpeg"],
  ])("makes no document of an answer that an upstream calls %s", async (type, shown) => {
    answer = () => new Response("<script>alert(1)</script>", { headers: { "content-type": type } });
    const called = await play(chat);
    expect([called.headers.get("content-type"), called.headers.get("x-content-type-options")]).toEqual([shown, "nosniff"]);
  });

  test("is for admins, and for their own pages only", async () => {
    const viewer = await play(chat, await world.token("viewer"));
    expect([viewer.status, codeOf(viewer)]).toEqual([403, "forbidden"]);
    const { "x-csrf-token": _csrf, ...cookieAlone } = await world.session("ada");
    const stranger = await play(chat, { ...cookieAlone, origin: "https://evil.example" });
    expect([stranger.status, codeOf(stranger)]).toEqual([403, "csrf"]);
    expect(sent).toEqual([]);
  });

  test.each([`${key}\r\nx-evil: 1`, "", "käse", 7])("refuses %p as a key, without repeating it", async (wrong) => {
    const called = await play({ ...chat, key: wrong });
    expect([called.status, sent]).toEqual([400, []]);
    expect(called.text).not.toContain("canary");
  });

  test("says that the port for clients cannot be reached", async () => {
    answer = () => null;
    const called = await play(chat);
    expect([called.status, codeOf(called)]).toEqual([503, "data_plane_unreachable"]);
  });
});
