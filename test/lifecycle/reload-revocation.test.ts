// Needs: quiet. It mostly waits for a reload to be noticed.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
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

test("no call begins with a key after it was removed from the file and the calls of the key were ended", async () => {
  await rig.gateway.rewriteConfig(rig.config);
  rig.gateway.signal("SIGHUP");
  await eventually("that the key works again", async () => (await rig.chat({ model: "plain" }, { key: leaverKey })).status === 200);
  const calls: Awaited<ReturnType<typeof rig.open>>[] = [];
  // The first of them must not end before the reload has come, however busy the machine is.
  const endless = { ...long, x_tokens: 4_000 };
  let refused = false;
  const askers = Array.from({ length: 6 }, async () => {
    while (!refused) {
      const call = await rig.open(endless, { key: leaverKey, stream: true, timeoutMs: 50_000 });
      calls.push(call);
      await call.untilHead();
      refused ||= call.response.status === 401 && (await call.reply).error?.code === "invalid_api_key";
    }
  });
  await eventually("that calls run", () => calls.length > 6);
  await rig.gateway.rewriteConfig({ ...rig.config, keys: [{ name: "tester", key: clientKey }] });
  rig.gateway.signal("SIGHUP");
  await Promise.all(askers);
  const replies = await Promise.all(calls.map(({ reply }) => reply));
  const codes = new Set(replies.map(({ done, error }) => (done ? "served to its end" : error?.code)));
  expect(codes).toEqual(new Set(["invalid_api_key", "key_revoked"]));
});

test.each([
  ["moving a key of the file into a frozen group", undefined],
  ["freezing a group of the file above the one of a key", "below"],
])("%s ends the running streams of the key, and those of other keys go on", async (_, groupBefore) => {
  const withGroup = (group: string | undefined) =>
    (rig.config["keys"] as readonly { readonly name: string }[]).map((key) =>
      key.name === "leaver" && group !== undefined ? { ...key, group } : key,
    );
  const groups = (frozen: boolean) => [
    { name: "stopped", frozen },
    { name: "below", parent: "stopped" },
  ];
  const reload = async (config: Record<string, unknown>): Promise<void> => {
    await rig.gateway.rewriteConfig({ ...rig.config, ...config });
    rig.gateway.signal("SIGHUP");
  };
  await reload({ groups: groups(false), keys: withGroup(groupBefore) });
  await eventually("that the key works again", async () => (await rig.chat({ model: "plain" }, { key: leaverKey })).status === 200);
  const call = await rig.open({ ...long, x_tokens: 4_000 }, { key: leaverKey, stream: true, timeoutMs: 50_000 });
  const bystander = await rig.open(long, { key: clientKey, stream: true, timeoutMs: 50_000 });
  await Promise.all([call.untilBody(500), bystander.untilBody(500)]);
  await reload({ groups: groups(true), keys: withGroup("below") });
  const { done, error } = await call.reply;
  expect({ done, code: error?.code }).toEqual({ done: false, code: "group_frozen" });
  expect(await rig.chat({ model: "plain" }, { key: leaverKey })).toMatchObject({ status: 403, error: { code: "group_frozen" } });
  expect((await bystander.reply).done).toBe(true);
});
