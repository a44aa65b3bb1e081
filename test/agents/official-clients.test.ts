import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { foundOrSkipped } from "../support/test-tools.ts";
import { isInstalled, officialClients, type AskedTool } from "./official-clients.ts";
import { ScriptedModel, type Script } from "./scripted-model.ts";
import { wires } from "./wires/index.ts";

setDefaultTimeout(60_000);
// It warns of each model that it does not know.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const key = "sk-client-of-these-libraries";
const prompt = "Task 4711: how is the weather in Bern?";
const finalText = "It is sunny in Bern.";
const script: Script = { marker: prompt, steps: [() => ({ name: "weather", arguments: { city: "Bern" } })], finalText };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

let upstreams: readonly ScriptedModel[] = [];
let gateway: Gateway;
const dialects = Object.entries(wires);

beforeAll(async () => {
  if (!officialClients.some(isInstalled)) return;
  upstreams = await Promise.all(dialects.map(([, wire]) => ScriptedModel.start(script, "lives", wire)));
  gateway = await startGateway({
    config: {
      keys: [{ name: "library", key }],
      channels: upstreams.map(({ channel }, at) => ({
        name: `channel-${at + 1}`,
        ...channel,
        api_key: "sk-of-the-upstream",
        models: [modelOver(dialects[at]![0])],
      })),
    },
  });
});

afterAll(async () => {
  if (upstreams.length === 0) return;
  await gateway.kill();
  for (const upstream of upstreams) await upstream[Symbol.asyncDispose]();
});

function modelOver(dialect: string): string {
  return `over-${dialect}`;
}

describe.each(officialClients.map((client) => [client.name, client] as const))("%s (skipped without npm run test:agents)", (_, client) => {
  const cases = dialects.flatMap(([dialect]) => [false, true].map((streamed) => [dialect, streamed] as const));
  const installed = test.skipIf(foundOrSkipped("agents", client.name, isInstalled(client) ? client : null) === null);

  installed.each(cases)("gets an answer over an upstream that speaks %s (streamed: %p)", async (dialect, streamed) => {
    const text = await client.ask({ url: gateway.url, key, model: modelOver(dialect), prompt, streamed, tool: null });
    expect(text).toBe("Done.");
  });

  installed.each(cases)("completes a tool loop over an upstream that speaks %s (streamed: %p)", async (dialect, streamed) => {
    const inputs: unknown[] = [];
    const tool: AskedTool = {
      name: "weather",
      description: "The weather of a city.",
      schema,
      run: (input) => {
        inputs.push(input);
        return "sunny";
      },
    };
    const text = await client.ask({ url: gateway.url, key, model: modelOver(dialect), prompt, streamed, tool });
    expect([text, inputs]).toEqual([finalText, [{ city: "Bern" }]]);
    const upstream = upstreams[dialects.findIndex(([name]) => name === dialect)];
    expect(upstream?.requests.at(-1)?.results.map((result) => result.includes("sunny"))).toEqual([true]);
  });
});
