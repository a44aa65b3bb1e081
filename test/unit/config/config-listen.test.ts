import { describe, expect, test } from "bun:test";
import { loadConfig } from "../../../src/config/load.ts";
import { parseListen, parseListenOrSocket } from "../../../src/config/listen.ts";
import { listenOverrides, overridden } from "../../../src/config/overrides.ts";
import type { Settings } from "../../../src/config/settings.ts";

describe("a place to listen", () => {
  test("may be a unix socket, where only this machine connects", () => {
    expect(parseListenOrSocket("unix:/run/sluice.sock")).toEqual({ host: "localhost", port: 0, path: "/run/sluice.sock" });
    expect(parseListenOrSocket("127.0.0.1:4400")).toEqual({ host: "127.0.0.1", port: 4400 });
    expect(parseListen("unix:/run/sluice.sock")).toBeNull();
  });

  test.each(["unix:", "unix:run/sluice.sock", "unix:/run/", "unix:/a\nb", `unix:/${"x".repeat(110)}`, "/run/sluice.sock"])(
    "is not %p",
    (text) => {
      expect(parseListenOrSocket(text)).toBeNull();
    },
  );

  test("on the command line moves the admin API only if it is a port", async () => {
    const loaded = await loadConfig({ path: null, text: "channels: []", env: {}, nofile: 1024 });
    const settings = (loaded as { settings: Settings }).settings;
    const moved = (listen: string): unknown => {
      const overrides = listenOverrides({ listen, admin: null });
      return typeof overrides === "string" ? overrides : overridden(settings, overrides).admin?.port;
    };
    expect(moved("127.0.0.1:5000")).toBe(5001);
    expect(moved("unix:/run/sluice.sock")).toBe(4401);
    expect(listenOverrides({ listen: null, admin: "unix:/run/admin.sock" })).toContain("--admin takes HOST:PORT");
  });

  test("and its mode is a text, because YAML reads numbers in its own way", async () => {
    const load = async (mode: string): Promise<unknown> => {
      const loaded = await loadConfig({ path: null, text: `listen_mode: ${mode}`, env: {}, nofile: 1024 });
      return loaded.ok ? loaded.settings.listenMode : loaded.problems[0]?.fix;
    };
    expect(await load('"660"')).toBe(0o660);
    expect(await load('"0600"')).toBe(0o600);
    for (const wrong of ["660", "0660", "0o660", '"999"', '"rw"']) expect(await load(wrong)).toContain('"660"');
  });

  test("of the admin API may have further names: of hosts, alone", async () => {
    const load = async (names: string): Promise<unknown> => {
      const loaded = await loadConfig({ path: null, text: `admin_names: [${names}]`, env: {}, nofile: 1024 });
      return loaded.ok ? loaded.settings.adminNames : null;
    };
    const names = ["gateway", "sluice.example.com", "sluice_gateway", "10.0.0.1", "fd00::1", "[fd00::1]"];
    expect(await load(names.map((name) => JSON.stringify(name)).join(", "))).toEqual(names);
    // None of these would ever be the host of a request.
    for (const wrong of ["https://gateway", "gateway:4401", "gateway/console", "*.example.com", "a b", ""])
      expect([wrong, await load(JSON.stringify(wrong))]).toEqual([wrong, null]);
  });

  test("of a webhook may have a query, and that of an upstream or a collector may not", async () => {
    const load = (text: string) => loadConfig({ path: null, text, env: {}, nofile: 1024 });
    const url = "https://h.example.com/flow?api-version=1&sig=secret";
    const loaded = await load(`webhooks: [{ url: "${url}", secret: aaaaaaaabbbbbbbb }]`);
    expect(loaded.ok && loaded.settings.webhooks.map((webhook) => webhook.url)).toEqual([url]);
    for (const other of [`otel: { endpoint: "${url}" }`, `channels: [{ name: a, base_url: "${url}" }]`])
      expect((await load(other)).ok).toBe(false);
  });
});
