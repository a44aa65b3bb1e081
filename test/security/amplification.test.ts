// Needs: quiet, long. It mostly waits for requests that are not complete; the memory, time and open files are those of its own gateway.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { fixed } from "../../src/http/routes.ts";
import { RawConnection, RawResponse } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import { leastCpuMs } from "../support/cpu.ts";
import { eventually } from "../support/eventually.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** The longest list that is likely to be asked for. */
const models = Array.from({ length: 10_000 }, (_, at) => `model-${at}`);
/** The bar: what a byte of an attacker may cost, beside a byte that arrives and is forgotten. */
const amplificationMax = 100;

function start(listed: readonly string[]): Promise<Rig<"a">> {
  return setUp({ a: { models: listed } }, { server: { wrong_keys: "off" } }, { env: collects, readyWithinMs: 20_000 });
}

const routes = [
  ...[...fixed].map(([path, { method }]) => ({ path, method })),
  { path: "/v1/models/model-1", method: "GET" },
  { path: "/v1/models/none", method: "GET" },
];
const askers = [
  { who: "a stranger", headers: "" },
  { who: "a key", headers: `Authorization: Bearer ${clientKey}\r\n` },
];
const asked = askers.flatMap(({ who, headers }) => routes.map(({ path, method }) => ({ who, path, method, headers })));

function request(path: string, method: string, headers: string, body = ""): Buffer {
  const entity = method === "POST" ? `Content-Type: ${typeOf(path)}\r\nContent-Length: ${body.length}\r\n` : "";
  return Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: g\r\n${headers}${entity}\r\n${method === "POST" ? body : ""}`);
}

function typeOf(path: string): string {
  return /transcriptions|translations/.test(path) ? "multipart/form-data; boundary=b" : "application/json";
}

describe("S20: a byte of a request costs at most a hundred times as much of", () => {
  test("the processor as one that asks for nothing, on every route", async () => {
    await using rig = await start(models);
    const times = 15;
    const roundsMax = 8;
    const perByteUs = async (bytes: Buffer, method: string, rounds: number): Promise<number> => {
      const all = async (): Promise<void> => {
        let connection = await RawConnection.open(rig.gateway.url);
        for (let time = 0; time < times; time += 1) {
          await connection.send(bytes);
          const response = await connection.receive(new RawResponse(), method);
          expect(response.endedCleanly).toBe(true);
          if (response.header("connection") === "close") connection = await RawConnection.open(rig.gateway.url);
        }
        connection.close();
      };
      return (1_000 * (await leastCpuMs(rig.gateway.pid, rounds, all))) / (times * bytes.length);
    };
    const idle = await perByteUs(request("/healthz", "GET", ""), "GET", roundsMax);
    // What else the process does is in a measurement now and then: one that is too much is made again, and the least counts.
    const leastRatio = async (bytes: Buffer, method: string): Promise<number> => {
      const first = (await perByteUs(bytes, method, 1)) / idle;
      return first > amplificationMax ? (await perByteUs(bytes, method, roundsMax)) / idle : first;
    };
    const dear: string[] = [];
    for (const { who, path, method, headers } of asked) {
      const ratio = await leastRatio(request(path, method, headers, "{}"), method);
      if (ratio > amplificationMax) dear.push(`${method} ${path} by ${who}: ${ratio.toFixed(0)} times`);
    }
    expect(dear).toEqual([]);
  });

  test("memory as it is long, on every route, while the rest of it does not come", async () => {
    // No request gets as far as the list, which would only make each collection of garbage longer.
    await using rig = await start(models.slice(0, 10));
    const connectionsMax = 500;
    const heldBy = async (part: Buffer): Promise<number> => {
      const before = await collected(rig.gateway);
      const openBefore = rig.gateway.fds() ?? 0;
      const connections = await Promise.all(Array.from({ length: connectionsMax }, () => RawConnection.open(rig.gateway.url)));
      await Promise.all(connections.map((connection) => connection.send(part)));
      // A stranger is told at once, and its connection kept for a moment.
      const held = await collected(rig.gateway);
      for (const connection of connections) connection.close();
      await eventually("they are gone", () => (rig.gateway.fds() ?? 0) <= openBefore + 5);
      return held.rssBytes - before.rssBytes;
    };
    // What the process keeps for later, whoever asks, is in a measurement now and then, and not in every one.
    const leastHeldBy = async (part: Buffer): Promise<number> => {
      const bound = amplificationMax * connectionsMax * part.length;
      let least = Infinity;
      for (let turn = 0; turn < 3 && least > bound; turn += 1) least = Math.min(least, await heldBy(part));
      return least;
    };
    const dear: string[] = [];
    // The first of so many makes the process larger once and for all.
    await heldBy(request("/healthz", "GET", "").subarray(0, -2));
    for (const { who, path, method, headers } of asked) {
      // All but the end of the head, or all of the head and a little more.
      const whole = request(path, method, headers, "x".repeat(100_000));
      const part = method === "GET" ? whole.subarray(0, -2) : whole.subarray(0, whole.indexOf("\r\n\r\n") + 10);
      if (who === "a stranger" && method === "GET") continue;
      const ratio = (await leastHeldBy(part)) / (connectionsMax * part.length);
      if (ratio > amplificationMax) dear.push(`${method} ${path} by ${who}: ${ratio.toFixed(0)} times`);
    }
    expect(dear).toEqual([]);
  });
});
