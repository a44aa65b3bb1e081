// Needs: quiet. It mostly waits for a reload to be noticed.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

let rig: Rig<"a">;

beforeAll(async () => {
  rig = await setUp(
    { a: { models: ["plain"] } },
    {
      keys: [
        { name: "tester", key: clientKey },
        { name: "leaver", key: leaverKey },
      ],
    },
  );
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

const leaverKey = "sk-leaver-canary-0123456789abcdef";
const long = { model: "plain", x_tokens: 400, x_pace_ms: 20 };

test("removing a key from the file ends its running streams", async () => {
  const call = await rig.open(long, { key: leaverKey, stream: true, timeoutMs: 15_000 });
  await call.untilBody(500);
  await rig.gateway.rewriteConfig({ ...rig.config, keys: [{ name: "tester", key: clientKey }] });
  rig.gateway.signal("SIGHUP");
  const { done, error } = await call.reply;
  expect({ done, code: error?.code }).toEqual({ done: false, code: "key_revoked" });
});
