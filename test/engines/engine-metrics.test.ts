// Needs: models. A model of this machine says a few words.
import { expect, setDefaultTimeout, test } from "bun:test";
import { chat } from "../support/chat.ts";
import { parseExposition } from "../support/exposition.ts";
import { startGateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

test("a scrape shows no engine before it is needed, and then that it runs", async () => {
  const key = "sk-engine-metrics-0123456789abcdef";
  await using gateway = await startGateway({
    config: {
      admin: "127.0.0.1:0",
      metrics: { public: true },
      keys: [{ name: "client", key }],
      channels: [{ name: "here", provider: "embedded" }],
    },
  });
  const states = async (): Promise<readonly unknown[]> => {
    const families = parseExposition(await (await fetch(`${gateway.adminUrl}/metrics`)).text());
    const samples = families.find(({ name }) => name === "sluice_engine_state")?.samples ?? [];
    return samples.map(({ labels, value }) => [labels["engine"], labels["state"], value]);
  };
  expect(await states()).toEqual([]);
  expect((await chat(gateway, { model: "embedded/stories-15m", max_tokens: 3 }, { key })).status).toBe(200);
  expect(await states()).toEqual([
    ["chat", "running", 1],
    ["chat", "starting", 0],
    ["chat", "backoff", 0],
    ["chat", "stopped", 0],
  ]);
});
