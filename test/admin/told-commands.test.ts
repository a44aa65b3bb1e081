// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, expect, test } from "bun:test";
import { startAdmin, type AdminWorld, type ErrorBody } from "../support/admin.ts";

let world: AdminWorld;

beforeAll(async () => {
  const told = { name: "npx sluice", asTyped: (text: string) => text.replaceAll("sluice config", "npx sluice config") };
  world = await startAdmin({ services: { told } });
  await world.account("ada", "admin");
});

async function refusedAs(headers: Readonly<Record<string, string>>): Promise<string> {
  const called = await world.call("POST", "/admin/api/resources/diff", { headers, body: { text: "{}" } });
  return (called.json as ErrorBody).error.message;
}

test("commands are written as the machine of the gateway types them for people, and plainly for a command line elsewhere, which has its own", async () => {
  expect(await refusedAs(await world.session("ada"))).toContain("; npx sluice config export prints");
  expect(await refusedAs(await world.token("admin"))).toContain("; sluice config export prints");
});
