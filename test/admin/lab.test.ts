// Needs: quiet, servers. It mostly waits for the calls of the lab.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LabRunView } from "../../src/admin/views/lab-view.ts";
import { labScenarios, type LabMode } from "../../src/lab/scenarios.ts";
import { callAdmin, type Called } from "../support/admin.ts";
import { CommandLine } from "../support/command-line.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(120_000);

const adminToken = "0c4be8f1a95d27e36b8f01c2d9a4e5730f6d";
const clientKey = "sk-client-canary-0123456789abcdef";
const headers = { authorization: `Bearer ${adminToken}` };

/** Every scenario in each of its modes. */
const cases = labScenarios.flatMap(({ name, modes }) => modes.map((mode) => [name, mode] as const));
const runs = new Map<string, LabRunView>();
let folder: string;
let gateway: Gateway;
let cli: CommandLine;
const config = {
  admin: "127.0.0.1:0",
  keys: [{ name: "tester", key: clientKey }],
  channels: [{ name: "real", base_url: "http://127.0.0.1:9/v1", models: ["real-model"] }],
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, adminToken, { mode: 0o600 });
  gateway = await startGateway({ config, env: { ADMIN_TOKEN_FILE: tokenFile } });
  cli = new CommandLine({ admin: new URL(gateway.adminUrl).host, data_dir: join(gateway.directory, "data") });
  const waiting = [...cases];
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) runs.set(next.join(" "), await whole(...next));
  };
  // As many as may run at a time.
  await Promise.all([worker(), worker(), worker(), worker()]);
});

afterAll(async () => {
  await gateway.kill();
  await rm(folder, { recursive: true, force: true });
});

const ask = (method: string, path: string, body?: unknown): Promise<Called> =>
  callAdmin(gateway.adminUrl, method, `/admin/api${path}`, body === undefined ? { headers } : { headers, body });

const start = (order: object): Promise<Called> => ask("POST", "/lab/runs", order);

async function whole(scenario: string, mode: LabMode): Promise<LabRunView> {
  const started = await start({ scenario, mode, calls: 5, rate: 20 });
  if (started.status !== 201) throw new Error(`${scenario} did not start: ${started.text}`);
  let run = started.json as LabRunView;
  await eventually(
    `the end of ${scenario}`,
    async () => {
      run = (await ask("GET", `/lab/runs/${run.id}`)).json as LabRunView;
      return run.state !== "running";
    },
    60_000,
  );
  return run;
}

describe("the fault lab", () => {
  test.each(cases)("keeps what the scenario %s promises, %s", (scenario, mode) => {
    const run = runs.get(`${scenario} ${mode}`);
    expect([run?.broken, run?.as_promised, run?.results.length]).toEqual([[], true, 5]);
  });

  test("shows the failover: each attempt of a call, and what its client saw", () => {
    const [first] = runs.get("server-error whole")?.results ?? [];
    const outcomes = first?.attempts.map(({ channel, outcome }) => `${channel} ${outcome}`) ?? [];
    expect([outcomes[0], outcomes.at(-1)]).toEqual(["lab-a failed", "lab-b answered"]);
    expect(first?.client).toMatchObject({ sees: "answer", status: 200, words: 60 });
  });

  test("shows a channel that cools down, why and for how long", () => {
    const [channel] = runs.get("rate-limit streamed")?.channels ?? [];
    expect(channel?.breaker).toMatchObject({ state: "open", cause: "rate_limited" });
    expect(channel?.breaker?.for_ms).toBeLessThanOrEqual(20_000);
  });

  test("leaves no trace in usage, receipts, models, problems and the channels of clients", async () => {
    const { json: usage } = await ask("GET", "/usage?group_by=model");
    const { json: requests } = await ask("GET", "/requests");
    const { json: channels } = await ask("GET", "/channels");
    const models = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${clientKey}` } });
    const shown = JSON.stringify([usage, requests, channels, await models.json()]);
    expect(shown).toContain("real-model");
    expect(shown).not.toContain("lab");
    expect(gateway.accessLines()).toEqual([]);
  });

  test("is not reachable with the key of a client", async () => {
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${clientKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "lab", messages: [{ role: "user", content: "Hello" }] }),
    });
    expect(answer.status).toBe(404);
  });

  test("ends a run at once when it is told to, and forgets it", async () => {
    const { json } = await start({ scenario: "slow-first-token", calls: 200, rate: 0.1 });
    const { id } = json as LabRunView;
    const ended = await ask("DELETE", `/lab/runs/${id}`);
    expect([ended.status, (ended.json as LabRunView).state]).toEqual([200, "stopped"]);
    expect((await ask("GET", `/lab/runs/${id}`)).status).toBe(404);
  });

  test("runs at most four at a time", async () => {
    const four = await Promise.all([1, 2, 3, 4].map(() => start({ scenario: "reset", calls: 200, rate: 0.1 })));
    const fifth = await start({ scenario: "reset" });
    await Promise.all(four.map(({ json }) => ask("DELETE", `/lab/runs/${(json as LabRunView).id}`)));
    expect([...four.map(({ status }) => status), fifth.status]).toEqual([201, 201, 201, 201, 409]);
  });

  test.each([
    [{ scenario: "no-such" }, "scenario"],
    [{ scenario: "truncated-json", mode: "streamed" }, "mode"],
    [{ scenario: "reset", calls: 201 }, "calls"],
    [{ scenario: "reset", calls: 0 }, "calls"],
    [{ scenario: "reset", rate: 51 }, "rate"],
  ])("refuses %j, and names the field", async (order, param) => {
    const refused = await start(order);
    expect([refused.status, (refused.json as { error: { param: string } }).error.param]).toEqual([400, param]);
  });

  test("writes who started a run to the audit log", async () => {
    const { text } = await ask("GET", "/audit?limit=200");
    expect(text).toContain('"lab.start"');
    expect(text).toContain('"lab.stop"');
  });
});

describe("sluice lab", () => {
  test("lists the scenarios", async () => {
    const { code, out } = await cli.here(["lab"]);
    expect(code).toBe(0);
    expect(labScenarios.filter(({ name, title }) => !out.includes(name) || !out.includes(title))).toEqual([]);
    expect(await cli.json<unknown[]>("lab")).toHaveLength(labScenarios.length);
  });

  test("asks the gateway of this machine, whatever proxy the environment names", async () => {
    const { code, out } = await cli.run(["lab", "--json"], { env: { HTTP_PROXY: "http://127.0.0.1:9", http_proxy: "http://127.0.0.1:9" } });
    expect([code, (JSON.parse(out) as unknown[]).length]).toEqual([0, labScenarios.length]);
  });

  test("runs one, prints a line for each call, and ends with 0 if all is as promised", async () => {
    const { code, out, err } = await cli.here(["lab", "run", "rate-limit", "--calls", "2", "--rate", "50"]);
    expect(err).toContain("429 with Retry-After 20");
    expect(out).toMatch(/^ {3}1 {2}answer, 60 words +\d+ ms {2}lab-a rate_limited > lab-b answered$/m);
    expect(out).toMatch(/^lab-a: asked \d times?, open \(rate_limited\), again in \d+ s$/m);
    expect([code, out]).toEqual([0, expect.stringContaining("As promised: ")]);
  });

  test("prints the whole run with --json", async () => {
    const run = await cli.json<LabRunView>("lab", "run", "truncated-json", "--calls", "1", "--mode", "whole");
    expect(run).toMatchObject({ scenario: "truncated-json", mode: "whole", calls: 1, state: "ended", as_promised: true });
  });

  test.each([
    [["lab", "run", "no-such"], 64, "see sluice lab"],
    [["lab", "run", "truncated-json", "--mode", "streamed"], 64, "no calls of this mode"],
    [["lab", "run", "reset", "--calls", "0"], 64, "from 1 to 200"],
  ])("refuses %j", async (args, code, words) => {
    expect(await cli.here(args)).toMatchObject({ code, err: expect.stringContaining(words) });
  });

  // The last one: the gateway has other settings after it.
  test("tries the settings in force, and ends with 1 if they do not keep the promise", async () => {
    await gateway.rewriteConfig({ ...config, data_dir: join(gateway.directory, "data"), listen: "127.0.0.1:0", routing: { attempts: 1 } });
    gateway.signal("SIGHUP");
    await gateway.waitForLog((line) => line["event"] === "reloaded", 60_000);
    const { code, out } = await cli.here(["lab", "run", "reset", "--calls", "1"]);
    expect([code, out]).toEqual([1, expect.stringContaining("the client saw the error upstream_disconnected with status 502")]);
  });

  test("leaves no token behind", async () => {
    const { json } = await ask("GET", "/tokens");
    const { tokens } = json as { tokens: readonly { name: string; revoked_at: string | null }[] };
    expect(tokens.filter(({ revoked_at }) => revoked_at === null)).toEqual([]);
  });
});
