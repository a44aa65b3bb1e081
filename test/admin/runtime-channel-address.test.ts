import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const adminToken = "b7f1c93e5ad8460f92e47a1c3d5b8e60f4a7";

test("no address that the admin API accepts prevents the next start", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
  const options = {
    directory,
    config: { admin: "127.0.0.1:0", keys: [{ name: "k", key: "client-key-0123456789abcdef" }] },
    env: { ADMIN_TOKEN_FILE: join(directory, "token") },
  };
  const first = await startGateway(options);
  const response = await fetch(`${first.adminUrl}/admin/api/channels`, {
    method: "POST",
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "typo", entry: { base_url: "https:/api.example.com/v1" }, secrets: ["sk-0123456789abcdefghij"] }),
  });
  expect([201, 400]).toContain(response.status);
  await first.kill();
  const second = await startGateway(options);
  expect(second.running).toBe(true);
  await second.kill();
  await rm(directory, { recursive: true, force: true });
});
