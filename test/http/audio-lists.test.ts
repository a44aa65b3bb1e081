import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const narrowKey = "sk-narrow-client-of-these-tests";
const chatKey = "sk-chat-client-of-these-tests";

let gateway: Gateway;

beforeAll(async () => {
  const base_url = "http://127.0.0.1:9/v1";
  gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key },
        { name: "narrow", key: narrowKey, models: ["chorus"] },
        { name: "chatter", key: chatKey, operations: ["chat"] },
      ],
      channels: [
        { name: "choir", base_url, models: ["chorus"], voices: { alto: "a1", bass: "b1" }, capabilities: { operations: ["speech"] } },
        { name: "any", base_url, models: ["tts-1"], capabilities: { operations: ["speech"] } },
        { name: "talk", base_url, models: ["chorus", "talker"], voices: { mute: "m" }, capabilities: { operations: ["chat"] } },
      ],
    },
  });
});

afterAll(async () => {
  await gateway.kill();
});

async function get(path: string, token: string | null = key): Promise<{ readonly status: number; readonly json: unknown }> {
  const response = await fetch(`${gateway.url}/v1/audio/${path}`, { headers: token === null ? {} : { authorization: `Bearer ${token}` } });
  return { status: response.status, json: await response.json() };
}

async function voices(path: string, token = key): Promise<readonly string[]> {
  const { json } = await get(path, token);
  return (json as { voices: { id: string; name: string }[] }).voices.map(({ id }) => id);
}

describe("the lists for chat interfaces", () => {
  test("have the models that speak, and that the key may use", async () => {
    expect(await get("models")).toEqual({
      status: 200,
      json: {
        models: [
          { id: "chorus", name: "chorus" },
          { id: "tts-1", name: "tts-1" },
        ],
      },
    });
    expect((await get("models", narrowKey)).json).toEqual({ models: [{ id: "chorus", name: "chorus" }] });
    expect((await get("models", chatKey)).json).toEqual({ models: [] });
    expect((await get("models", null)).status).toBe(401);
  });

  test("have their voices as clients name them, and the usual ones where any is taken", async () => {
    expect((await get("voices?model=chorus")).json).toEqual({
      voices: [
        { id: "alto", name: "alto" },
        { id: "bass", name: "bass" },
      ],
    });
    expect(await voices("voices")).toEqual(expect.arrayContaining(["alto", "bass", "alloy", "nova", "marin", "cedar"]));
    expect(await voices("voices", narrowKey)).toEqual(["alto", "bass"]);
    expect(await voices("voices?model=tts-1", narrowKey)).toEqual([]);
    expect(await voices("voices", chatKey)).toEqual([]);
    expect((await get("voices", null)).status).toBe(401);
  });

  test("need no key where the configuration says so, and a wrong key is still refused", async () => {
    const open = await startGateway({
      config: {
        keys: [{ name: "client", key }],
        channels: [
          {
            name: "choir",
            base_url: "http://127.0.0.1:9/v1",
            models: ["chorus"],
            voices: { alto: "a1" },
            capabilities: { operations: ["speech"] },
          },
        ],
        server: { open_audio_lists: true },
      },
    });
    const list = (path: string, headers: Record<string, string> = {}) => fetch(`${open.url}/v1/${path}`, { headers });
    expect(await (await list("audio/models")).json()).toEqual({ models: [{ id: "chorus", name: "chorus" }] });
    expect(await (await list("audio/voices")).json()).toEqual({ voices: [{ id: "alto", name: "alto" }] });
    expect((await list("audio/voices", { authorization: "Bearer sk-of-nobody-at-all" })).status).toBe(401);
    expect((await list("models")).status).toBe(401);
    await open.kill();
  });
});
