// Needs: quiet. It mostly waits before retries; the memory is that of its own gateway, which is told to collect its garbage.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chat, openChat } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** Each ends a call, or an attempt of one, in another place of the code. */
const faults = [
  "status@500",
  "status@400",
  "retry-after-ms@50",
  "close-before-headers",
  "rst-mid-headers",
  "rst-mid-body",
  "rst-after@2",
  "fin-chunked-after@2",
  "end-after@2",
  "sse-error-first@server_error",
  "sse-error-after@2",
  "html-200",
  "bad-chunk-size",
  "length-too-short",
  "gzip",
  "no-done",
  "malformed-event@2",
  "huge-headers@65536",
];

let rig: Rig<"a" | "b">;

beforeAll(async () => {
  rig = await setUp({ a: { weight: 1_000_000 }, b: {} }, {}, { env: collects });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

const atOnce = 30;

/**
 * Every fault for as many models, so that none is passed over for what it did before: each model fails once in a round, and four
 * failures shut nobody out. One call in six is left.
 */
async function round(): Promise<void> {
  for (const [number, fault] of faults.entries()) {
    rig.upstream.a.behaviour = `fault:${fault}`;
    await Promise.all(
      Array.from({ length: atOnce }, async (_, at) => {
        const options = { key: clientKey, stream: at % 2 === 0 };
        const body = { model: `memory-${number}-${at}` };
        if (at % 6 === 5) await (await openChat(rig.gateway, body, { ...options, abort: { afterMs: 5 } })).ended;
        else await chat(rig.gateway, body, options);
      }),
    );
  }
}

test("U5: the fourth time that everything goes wrong takes no more memory than the second", async () => {
  const mebibyte = 1024 * 1024;
  const resident: number[] = [];
  for (let time = 0; time < 4; time += 1) {
    await round();
    resident.push((await collected(rig.gateway)).rssBytes / mebibyte);
  }
  const met = rig.upstream.a.ledger.chats.length / (4 * faults.length * atOnce);
  expect(met).toBeGreaterThan(0.8);
  expect(resident[3]! - resident[1]!).toBeLessThan(allowedMiB);
  expect(rig.gateway.logs.filter(({ event }) => event === "bug")).toEqual([]);
});

/** What the allocator keeps for later; a buffer that each of some 1,100 calls forgot would be seen. */
const allowedMiB = 24;
