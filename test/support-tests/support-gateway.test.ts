// Needs: quiet. It mostly waits for a gateway that does wrong, which has longer for it where the machine is slow.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/client.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { checkInvariants, takeBaseline, type Scene } from "../support/invariants.ts";
import { slowness } from "../support/slowed.ts";

let chaos: Chaos;

beforeAll(async () => {
  chaos = await startChaos({ name: "a" });
});

afterAll(async () => {
  await chaos.close();
});

function start(sin = "", dawdlesMs = 0): Promise<Gateway> {
  return startGateway({
    command: [process.execPath, resolve(import.meta.dir, "../support/stand-in.ts")],
    config: { channels: [{ name: "a", base_url: chaos.url }] },
    env: { STAND_IN_SIN: sin, STAND_IN_DAWDLES_MS: String(dawdlesMs) },
  });
}

describe("a gateway under test", () => {
  test("is ready when it says so, and is heard, measured and stopped", async () => {
    const gateway = await start();
    expect(gateway.url).toStartWith("http://127.0.0.1:");
    expect(gateway.text).toContain("a line for people");
    expect((await chat(gateway, {})).requestId).toBe("req-1");
    expect(await gateway.waitForLog((line) => line["event"] === "call")).toMatchObject({
      id: "req-1",
    });
    expect(gateway.accessLines().length).toBe(1);
    if (existsSync("/proc")) {
      expect(gateway.rss()).toBeGreaterThan(1_000_000);
      expect(gateway.fds()).toBeGreaterThan(3);
    }
    expect(await gateway.stop()).toBe(0);
    expect(gateway.running || existsSync(gateway.directory)).toBe(false);
  });

  test("that does not start is quoted", async () => {
    const failing = startGateway({
      command: ["sh", "-c", "echo no such luck; exit 78"],
      config: {},
    });
    const complaint = await failing.then(
      () => "",
      (error: Error) => error.message,
    );
    expect(complaint).toContain("no such luck");
  });
});

describe("the invariants", () => {
  const canary = "sk-canary-1234567890";

  async function sceneOf(sin: string, dawdlesMs?: number): Promise<string> {
    await using gateway = await start(sin, dawdlesMs);
    const baseline = await takeBaseline(gateway, [chaos]);
    const replies = [await chat(gateway, {}, { key: canary })];
    const scene: Scene = {
      gateway,
      upstreams: [chaos],
      replies,
      baseline,
      secrets: [canary],
      withinMs: 300,
      ...(dawdlesMs === undefined ? undefined : { graceMs: 50 }),
    };
    return await checkInvariants(scene).then(
      () => "sound",
      (error: Error) => error.message,
    );
  }

  test("hold for an honest relay", async () => {
    expect(await sceneOf("")).toBe("sound");
  });

  test.each([
    ["forget", "U1: 1 calls left 0 access lines"],
    ["repeat", "U1: 1 calls left 2 access lines"],
    ["mix", "U2: req-1 got"],
    ["shorten", "as if it were whole"],
    ["leak", "U4: after 300 ms still"],
    ["die", "U6: process"],
    ["tell", "U7: sk-can… stands in the gateway's output"],
    ["insist", "U8: req-1 reached the upstreams 4 times"],
  ])("notice a gateway that sins: %s", async (sin, complaint) => {
    expect(await sceneOf(sin)).toContain(complaint);
  });

  test("notice a gateway that dawdles", async () => {
    // A slow machine is given many times the grace, so the grace is short here, and on such a machine it has to dawdle for longer.
    for (let dawdlesMs = 1_200; dawdlesMs < 40_000; dawdlesMs *= 5) {
      const complaint = await sceneOf("dawdle", dawdlesMs);
      if (complaint === "sound" && slowness() > 1) continue;
      return expect(complaint).toContain("U9: req-1 took");
    }
    expect.unreachable();
  }, 120_000);
});
