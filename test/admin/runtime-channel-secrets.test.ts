import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const secret = "sk-upstream-canary-0123456789-wxyz";
const adminToken = "b7f1c93e5ad8460f92e47a1c3d5b8e60f4a7";

/** An upstream that only remembers what it was opened with. */
function upstream(): { readonly url: string; readonly seen: string[]; stop(): Promise<void> } {
  const seen: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      seen.push(request.headers.get("authorization") ?? "");
      return Response.json({ object: "list", data: [{ id: "m", object: "model" }] });
    },
  });
  return { url: `http://127.0.0.1:${server.port}/v1`, seen, stop: () => server.stop(true) };
}

let directory: string;
let gateway: Gateway;
let admin: string;
let config: Readonly<Record<string, unknown>>;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const file = join(directory, "token");
  await writeFile(file, adminToken);
  await chmod(file, 0o600);
  config = { admin: "127.0.0.1:0", allow_private: true, keys: [{ name: "k", key: "client-key-0123456789abcdef" }] };
  gateway = await startGateway({
    config,
    env: { ADMIN_TOKEN_FILE: file },
  });
  admin = `${gateway.adminUrl}/admin/api`;
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function call(method: string, path: string, body: unknown = {}): Promise<{ readonly status: number; readonly json: unknown }> {
  const init = { method, headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" } };
  const response = await fetch(admin + path, method === "DELETE" ? init : { ...init, body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}

/** Tries the channel until this process has it, at the address that it is to have. */
async function tested(name: string, seen: readonly string[]): Promise<void> {
  await eventually(
    "the upstream is asked",
    async () => {
      await call("POST", `/channels/${name}/test`);
      return seen.length > 0;
    },
    8_000,
  );
}

test("a channel with a new address does not send its old secrets there", async () => {
  const [own, other] = [upstream(), upstream()];
  expect((await call("POST", "/channels", { name: "moved", entry: { base_url: own.url, models: ["m"] }, secrets: [secret] })).status).toBe(
    201,
  );
  await tested("moved", own.seen);
  expect(own.seen.at(-1)).toBe(`Bearer ${secret}`);
  expect((await call("PATCH", "/channels/moved", { entry: { base_url: other.url }, secrets: [] })).status).toBe(200);
  await tested("moved", other.seen);
  expect(other.seen.join()).not.toContain("canary");
  await Promise.all([own.stop(), other.stop()]);
});

test("a channel with the name of a removed one does not get its secrets", async () => {
  const [own, other] = [upstream(), upstream()];
  expect((await call("POST", "/channels", { name: "gone", entry: { base_url: own.url, models: ["m"] }, secrets: [secret] })).status).toBe(
    201,
  );
  await tested("gone", own.seen);
  expect((await call("DELETE", "/channels/gone")).status).toBe(200);
  expect((await call("POST", "/channels", { name: "gone", entry: { base_url: other.url, models: ["m"] } })).status).toBe(201);
  await tested("gone", other.seen);
  expect(other.seen.join()).not.toContain("canary");
  await Promise.all([own.stop(), other.stop()]);
});

test("a channel of the file keeps its key if one of the store has the same name", async () => {
  const [own, other] = [upstream(), upstream()];
  const made = await call("POST", "/channels", { name: "both", entry: { base_url: other.url, models: ["m"] }, secrets: [secret] });
  expect(made.status).toBe(201);
  const inFile = { name: "both", base_url: own.url, models: ["m"], api_key: "sk-of-the-file-0123456789" };
  await gateway.rewriteConfig({ ...config, channels: [inFile] });
  gateway.signal("SIGHUP");
  await gateway.waitForLog((line) => line["event"] === "reloaded");
  // Something changes in the store, whatever it is.
  expect((await call("POST", "/keys", { name: "another" })).status).toBe(201);
  await Bun.sleep(2_500);
  await tested("both", own.seen);
  expect(own.seen.join()).toBe("Bearer sk-of-the-file-0123456789");
  await Promise.all([own.stop(), other.stop()]);
});
