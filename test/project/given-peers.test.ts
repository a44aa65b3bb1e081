import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { platform, tmpdir } from "node:os";
import { join } from "node:path";
import { models } from "../../bench/ask.ts";
import { type GivenPeer, givenPeers, provePeer, type StartedPeer, startGivenPeer } from "../../bench/given-peers.ts";
import { scratch, stopEverything } from "../../bench/processes.ts";
import { clientKey, startUpstream, type Upstream } from "../../bench/target.ts";
import { givenProgram } from "../support/given-program.ts";
import type { PeerBehaviour } from "../support/peer-stand-in.ts";

setDefaultTimeout(60_000);

/** The bench finds what it has started, and ends it, by /proc. */
const isLinux = platform() === "linux";
const unless = isLinux ? "" : " (skipped without /proc)";
const folder = mkdtempSync(join(tmpdir(), "sluice-peers-"));
const started: StartedPeer[] = [];
let upstream: Upstream;

beforeAll(async () => {
  if (isLinux) upstream = await startUpstream();
});

afterEach(async () => {
  for (const peer of started.splice(0)) await peer.stop();
});

afterAll(async () => {
  await stopEverything();
  rmSync(folder, { recursive: true, force: true });
});

async function begun(kind: GivenPeer, withKey: boolean, behaviour: PeerBehaviour = "well"): Promise<StartedPeer> {
  const peer = await startGivenPeer(kind, givenProgram(folder, kind, behaviour), upstream, withKey);
  started.push(peer);
  return peer;
}

/** A file of those that a program was started with. */
function fileOf(kind: GivenPeer, { origin }: StartedPeer, name: string): unknown {
  return JSON.parse(readFileSync(join(scratch, `${kind}-${new URL(origin).port}`, name), "utf8"));
}

async function reasonOf(failing: Promise<unknown>): Promise<string> {
  return failing.then(
    () => "it did not fail",
    (error: Error) => error.message,
  );
}

describe.skipIf(!isLinux)(`a gateway that the bench is given${unless}`, () => {
  const variants = givenPeers.flatMap((kind) => [false, true].map((withKey) => [kind, withKey] as const));

  test.each(variants)("%s, with a key: %p, finds the upstream, the model and the key in its configuration", async (kind, withKey) => {
    const peer = await begun(kind, withKey);
    const { calls } = await upstream.counters();
    expect(peer.keyed).toBe(withKey);
    await provePeer(peer, upstream);
    // One straight at the upstream, and one through the gateway; none of those without the key.
    expect((await upstream.counters()).calls - calls).toBe(2);
  });

  test("busbar has limits far away and a key of the group that has them, and neither without a key", async () => {
    const keyed = await begun("busbar", true);
    expect(keyed.headers).toEqual({ authorization: "Bearer made-by-the-admin-api" });
    expect(fileOf("busbar", keyed, "given.json")).toMatchObject({ args: [], environment: { BENCH_UPSTREAM_KEY: "x" } });
    expect(fileOf("busbar", keyed, "config.yaml")).toMatchObject({
      groups: { bench: { limits: [{ per: "minute" }, { per: "minute" }, { concurrent: 1_000_000 }, { per: "month" }] } },
      rate_card: { [models.json]: { input_utok: 1, output_utok: 4 } },
    });
    const open = fileOf("busbar", await begun("busbar", false), "config.yaml") as Readonly<Record<string, unknown>>;
    expect(open).toMatchObject({ auth: { chain: [] } });
    expect(Object.keys(open)).not.toContain("groups");
  });

  test("Bifrost keeps a virtual key with limits and a budget, and its log of calls, only with a key", async () => {
    const keyed = await begun("bifrost", true);
    expect(keyed.headers).toEqual({ authorization: `Bearer sk-bf-${clientKey}` });
    const own = {
      virtual_keys: [{ id: "bench", rate_limit_id: "bench" }],
      budgets: [{ virtual_key_id: "bench" }],
      rate_limits: [{ id: "bench" }],
    };
    expect(fileOf("bifrost", keyed, "config.json")).toMatchObject({
      client: { enable_logging: true, disable_content_logging: true },
      config_store: { enabled: true },
      logs_store: { enabled: true },
      governance: own,
    });
    const open = fileOf("bifrost", await begun("bifrost", false), "config.json") as Readonly<Record<string, unknown>>;
    expect(open).toMatchObject({ client: { enable_logging: false }, config_store: { enabled: false }, logs_store: { enabled: false } });
    expect(Object.keys(open)).not.toContain("governance");
  });

  test("LiteLLM has its master key, one process, and no list of prices from the network", async () => {
    const keyed = await begun("litellm", true);
    expect(keyed.headers).toEqual({ authorization: `Bearer sk-${clientKey}` });
    const given = fileOf("litellm", keyed, "given.json") as { readonly args: readonly string[] };
    expect(given).toMatchObject({ environment: { LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_MODE: "PRODUCTION" } });
    expect(given.args.join(" ")).toContain("--host 127.0.0.1");
    expect(given.args.slice(-2)).toEqual(["--num_workers", "1"]);
    expect(fileOf("litellm", keyed, "config.yaml")).toMatchObject({
      model_list: [{ litellm_params: { api_base: `${upstream.origin}/v1` } }],
      general_settings: { master_key: `sk-${clientKey}` },
    });
  });
});

describe.skipIf(!isLinux)(`a program that is not measured says why${unless}:`, () => {
  test.each(givenPeers)("%s ended at once", async (kind) => {
    for (const withKey of [false, true]) expect(await reasonOf(begun(kind, withKey, "exits"))).toBe("it ended with code 3");
  });

  test.each(givenPeers)("%s is not there", async (kind) => {
    const nowhere = join(folder, "nowhere", kind);
    expect(await reasonOf(startGivenPeer(kind, nowhere, upstream, false))).toBe(`there is no program ${nowhere}`);
  });

  test("busbar made no key", async () => {
    expect(await reasonOf(begun("busbar", true, "keyless"))).toBe("busbar made no key: 403");
  });

  test.each(givenPeers)("%s answered with something else than the upstream", async (kind) => {
    expect(await reasonOf(provePeer(await begun(kind, true, "wrong"), upstream))).toStartWith(
      'it answered 200: {"choices":[{"message":{"content":"something else"}}]}',
    );
  });

  test.each(givenPeers)("%s answered with an error", async (kind) => {
    expect(await reasonOf(provePeer(await begun(kind, false, "broken"), upstream))).toBe("it answered 502: <html>out of order</html>");
  });

  test.each(givenPeers)("%s served a request without its key", async (kind) => {
    expect(await reasonOf(provePeer(await begun(kind, true, "open"), upstream))).toBe("it answered 200 to a request without its key");
  });

  test.each(givenPeers)("%s passed a request without its key on, and refused it then", async (kind) => {
    expect(await reasonOf(provePeer(await begun(kind, true, "leaky"), upstream))).toBe("it passed a request without its key on");
  });
});
