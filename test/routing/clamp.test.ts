// Needs: quiet. It mostly waits for limits that an upstream set to be over.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Attempt } from "../support/chaos/ledger.ts";
import type { ChatReply } from "../support/client.ts";
import { setUp, upstreamKey, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

const ceiling = 1_000;
const defaultCeiling = 16_384;

let rig: Rig<"pool" | "many" | "plain" | "backup" | "strict" | "fussy">;

beforeAll(async () => {
  rig = await setUp({
    pool: { models: ["pooled", "falls-back"], pooled: true, max_tokens_ceiling: ceiling, tier: 1 },
    many: { models: ["many"], api_keys: [upstreamKey("many"), `${upstreamKey("many")}-2`] },
    plain: { models: ["plain"] },
    backup: { models: ["falls-back"], tier: 2 },
    strict: { models: ["strict", "learned", "lesson-stream"] },
    fussy: { models: ["learned-late"], pooled: true, max_tokens_ceiling: ceiling },
  });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

type Name = keyof typeof rig.upstream;

/** Every attempt of a call, with the body it came with. */
function attemptsOf(reply: ChatReply, name: Name): readonly { readonly text: string; readonly fields: Record<string, unknown> }[] {
  const attempts: readonly Attempt[] = rig.upstream[name].ledger.ofCall(reply.call ?? "");
  return attempts.map(({ body }) => {
    const text = Buffer.from(body).toString();
    return { text, fields: JSON.parse(text) as Record<string, unknown> };
  });
}

function clampedTo(reply: ChatReply): string | null {
  return reply.response.header("x-sluice-max-tokens");
}

describe("a pooled channel", () => {
  test.each([{ max_tokens: 1_000_000 }, { max_completion_tokens: ceiling + 1 }, { max_tokens: 2_000, max_completion_tokens: 1e9 }])(
    "lowers %j to its ceiling, and says so",
    async (asked) => {
      for (const stream of [false, true]) {
        const reply = await rig.chat({ model: "pooled", ...asked }, { stream });
        expect([reply.status, clampedTo(reply)]).toEqual([200, String(ceiling)]);
        const lowered = Object.fromEntries(Object.keys(asked).map((name) => [name, ceiling]));
        expect(attemptsOf(reply, "pool").map(({ fields }) => fields)).toMatchObject([lowered]);
        expect(await rig.accessLine(reply.requestId)).toMatchObject({ max_tokens: ceiling });
      }
      await rig.check();
    },
  );

  test("takes the minimum of each field by itself: the one within the ceiling stays", async () => {
    const reply = await rig.chat({ model: "pooled", max_tokens: 12, max_completion_tokens: 5_000 });
    expect(attemptsOf(reply, "pool")[0]?.fields).toMatchObject({ max_tokens: 12, max_completion_tokens: ceiling });
    await rig.check();
  });

  test.each([
    `"max_tokens":${ceiling}`,
    '"max_tokens":1e2',
    '"max_completion_tokens":1',
    '"max_tokens":null',
    '"seed":5000',
    '"x":{"max_tokens":5000}',
  ])("does not touch %s", async (member) => {
    const text = `{"model":"pooled", ${member} ,"messages":[{"role":"user","content":"hi"}]}`;
    const before = rig.upstream.pool.ledger.chats.length;
    const reply = await rig.chat(text);
    expect([reply.status, clampedTo(reply)]).toEqual([200, null]);
    expect(Buffer.from(rig.upstream.pool.ledger.chats[before]?.body ?? []).toString()).toBe(text);
    expect(await rig.accessLine(reply.requestId)).not.toHaveProperty("max_tokens");
    await rig.check();
  });

  test("by having several keys has the default ceiling", async () => {
    const high = await rig.chat({ model: "many", max_tokens: 200_000 });
    expect([clampedTo(high), attemptsOf(high, "many")[0]?.fields["max_tokens"]]).toEqual([String(defaultCeiling), defaultCeiling]);
    const within = await rig.chat({ model: "many", max_tokens: defaultCeiling });
    expect([clampedTo(within), attemptsOf(within, "many")[0]?.fields["max_tokens"]]).toEqual([null, defaultCeiling]);
    await rig.check();
  });
});

describe("a channel with one key of its own", () => {
  test("is asked for what the client asked for, however much that is", async () => {
    const reply = await rig.chat({ model: "plain", max_tokens: 1_000_000_000 });
    expect([clampedTo(reply), attemptsOf(reply, "plain")[0]?.fields["max_tokens"]]).toEqual([null, 1_000_000_000]);
    await rig.check();
  });

  test("is asked for the full figure after a pooled one has failed with the lowered one", async () => {
    rig.upstream.pool.script(["fault:status@401"]);
    const reply = await rig.chat({ model: "falls-back", max_tokens: 50_000 });
    expect([reply.channel, clampedTo(reply)]).toEqual(["backup", null]);
    expect(attemptsOf(reply, "pool").map(({ fields }) => fields["max_tokens"])).toEqual([ceiling]);
    expect(attemptsOf(reply, "backup").map(({ fields }) => fields["max_tokens"])).toEqual([50_000]);
    expect(await rig.accessLine(reply.requestId)).not.toHaveProperty("max_tokens");
    await rig.check();
  });
});

describe("a ceiling that an upstream tells us in a refusal", () => {
  test("is respected at once, on the same channel, and remembered", async () => {
    rig.upstream.strict.behaviour = "fault:max-tokens-too-large@4096";
    const first = await rig.chat({ model: "learned", max_tokens: 100_000 });
    expect([first.status, clampedTo(first), first.response.header("x-sluice-attempts")]).toEqual([200, "4096", "2"]);
    expect(attemptsOf(first, "strict").map(({ fields }) => fields["max_tokens"])).toEqual([100_000, 4_096]);

    const second = await rig.chat({ model: "learned", max_tokens: 100_000 });
    expect([second.status, clampedTo(second), second.response.header("x-sluice-attempts")]).toEqual([200, "4096", "1"]);
    const within = await rig.chat({ model: "learned", max_tokens: 4_096 });
    expect([within.status, clampedTo(within)]).toEqual([200, null]);
    await rig.check();
  });

  test("holds for streams, and only for the model it was said of", async () => {
    rig.upstream.strict.behaviour = "fault:max-tokens-too-large@2048";
    const streamed = await rig.chat({ model: "lesson-stream", max_completion_tokens: 9_999 }, { stream: true });
    expect([streamed.done, clampedTo(streamed)]).toEqual([true, "2048"]);
    rig.upstream.strict.behaviour = null;
    const other = await rig.chat({ model: "strict", max_completion_tokens: 9_999 });
    expect([clampedTo(other), attemptsOf(other, "strict")[0]?.fields["max_completion_tokens"]]).toEqual([null, 9_999]);
    await rig.check();
  });

  test("lowers a configured one further", async () => {
    rig.upstream.fussy.behaviour = "fault:max-tokens-too-large@256";
    const reply = await rig.chat({ model: "learned-late", max_tokens: 5_000 });
    expect([reply.status, clampedTo(reply)]).toEqual([200, "256"]);
    expect(attemptsOf(reply, "fussy").map(({ fields }) => fields["max_tokens"])).toEqual([ceiling, 256]);
    await rig.check();
  });

  test("is tried once: one that is refused again is the client's to know", async () => {
    const { fussy } = rig.upstream;
    fussy.behaviour = null;
    fussy.script(["fault:max-tokens-too-large@100", "fault:max-tokens-too-large@10"]);
    const reply = await rig.chat({ model: "learned-late", max_tokens: 5_000 });
    expect([reply.status, reply.error?.param, reply.response.header("x-should-retry")]).toEqual([400, "max_tokens", "false"]);
    expect(attemptsOf(reply, "fussy").map(({ fields }) => fields["max_tokens"])).toEqual([256, 100]);
    await rig.check();
  });
});
