import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI, { BadRequestError } from "openai";
import { z } from "zod";
import { ScriptedModel, type Script, type Step } from "../agents/scripted-model.ts";
import { wires } from "../agents/wires/index.ts";
import { thought } from "../agents/wires/wire.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

/**
 * `createOpenAI(...)("model")` without any option: the Responses API with `store`, so that later steps name the texts and the reasoning of
 * earlier ones by their ids and do not send them.
 */
const key = "sk-client-of-the-defaults";
const otherKey = "sk-other-client-of-the-defaults";
const prompt = "Task 4712: how is the weather in Bern, Basel and Biel?";
const cities = ["Bern", "Basel", "Biel"];
const finalText = "It is sunny everywhere.";
const steps = cities.map((city): Step => () => ({ name: "weather", arguments: { city } }));
const script: Script = { marker: prompt, steps, finalText };
const dialects = Object.keys(wires) as (keyof typeof wires)[];

let upstreams: ReadonlyMap<string, ScriptedModel>;
let gateway: Gateway;

beforeAll(async () => {
  upstreams = new Map(
    await Promise.all(dialects.map(async (dialect) => [dialect, await ScriptedModel.start(script, "lives", wires[dialect])] as const)),
  );
  gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key },
        { name: "other", key: otherKey },
      ],
      channels: [...upstreams].map(([dialect, { channel }]) => ({ name: dialect, ...channel, api_key: "sk-up", models: [dialect] })),
    },
  });
});

afterAll(async () => {
  await gateway.kill();
  for (const upstream of upstreams.values()) await upstream[Symbol.asyncDispose]();
});

describe("the default of @ai-sdk/openai", () => {
  test.each(dialects.flatMap((dialect) => [false, true].map((streamed) => [dialect, streamed] as const)))(
    "completes a loop of three tools over an upstream that speaks %s, which gets its thoughts back (streamed: %p)",
    async (dialect, streamed) => {
      const asked: string[] = [];
      const options = {
        model: createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })(dialect),
        prompt,
        maxRetries: 0,
        stopWhen: stepCountIs(5),
        tools: {
          weather: tool({
            inputSchema: z.object({ city: z.string() }),
            execute: async ({ city }) => {
              asked.push(city);
              return "sunny";
            },
          }),
        },
      };
      const result = streamed ? streamText(options) : await generateText(options);
      expect(await result.text).toBe(finalText);
      expect(asked).toEqual(cities);
      // Its client and this upstream speak the same: references are for the upstream to resolve.
      const returned = dialect === "openai-responses" ? [] : [thought, thought, thought];
      expect(upstreams.get(dialect)?.requests.at(-1)?.thoughts).toEqual(returned);
    },
  );
});

describe("an item of an answer", () => {
  const client = (apiKey: string): OpenAI => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const reference = (id: string): OpenAI.Responses.ResponseInputItem => ({ type: "item_reference", id });
  const refer = async (apiKey: string, id: string): Promise<unknown> =>
    client(apiKey)
      .responses.create({ model: "openai", input: [reference(id), { role: "user", content: "And?" }] })
      .then(
        ({ status }) => status,
        (error: unknown) => error,
      );

  test("is found with the key that it was made for, and with no other", async () => {
    const { output, store } = (await client(key).responses.create({ model: "openai", input: "Hello." })) as unknown as Stored;
    expect(store).toBe(true);
    expect(await refer(key, output[0]!.id)).toBe("completed");
    const refused = await refer(otherKey, output[0]!.id);
    expect(refused).toBeInstanceOf(BadRequestError);
    expect(String(refused)).toContain("'store' set to false");
  });

  test("is not kept where its client says so, and the answer tells", async () => {
    const { output, store } = (await client(key).responses.create({ model: "openai", input: "Hello.", store: false })) as unknown as Stored;
    expect(store).toBe(false);
    expect(await refer(key, output[0]!.id)).toBeInstanceOf(BadRequestError);
  });
});

interface Stored {
  readonly store: boolean;
  readonly output: readonly { readonly id: string }[];
}
