import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const adminToken = "b7f1c93e5ad8460f92e47a1c3d5b8e60f4a7";

test("once private addresses are no longer allowed, channels of the store at such addresses are not used", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
  let asked = 0;
  const near = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ object: "list", data: [], asked: (asked += 1) }) });
  const config = { admin: "127.0.0.1:0", keys: [{ name: "k", key: "client-key-0123456789abcdef" }], allow_private: true };
  await using gateway = await startGateway({ config, env: { ADMIN_TOKEN_FILE: join(directory, "token") } });
  const call = (path: string, body: unknown): Promise<Response> =>
    fetch(`${gateway.adminUrl}/admin/api${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const entry = { base_url: `http://127.0.0.1:${near.port}/v1`, models: ["m"] };
  expect((await call("/channels", { name: "near", entry })).status).toBe(201);
  await eventually(
    "it is asked",
    async () => {
      await call("/channels/near/test", {});
      return asked > 0;
    },
    8_000,
  );
  await gateway.rewriteConfig({ ...config, allow_private: false });
  gateway.signal("SIGHUP");
  await gateway.waitForLog((line) => line["event"] === "reloaded");
  const before = asked;
  await call("/channels/near/test", {});
  expect(asked).toBe(before);
  await near.stop(true);
  await rm(directory, { recursive: true, force: true });
});
