import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { clientsOf, filledIn, likelyChatModel } from "../../../src/console/pages/setup/guide.ts";

const guide = readFileSync(join(import.meta.dir, "../../../docs/guides/clients.md"), "utf8");
const clients = clientsOf(guide);

describe("the clients that can be set up", () => {
  test("are those of the guide, whose examples the tests run", () => {
    const names = clients.map(({ name }) => name);
    for (const name of ["curl", "Claude Code", "Codex", "Open WebUI", "OpenAI"]) expect(names).toContain(name);
    expect(new Set(names).size).toBe(names.length);
    for (const { blocks } of clients) expect(blocks.every(({ text, title }) => text !== "" && title !== "")).toBe(true);
  });

  test("have the file of each block as its title", () => {
    expect(clients.find(({ name }) => name === "Codex")?.blocks[0]?.title).toBe("~/.codex/config.toml");
  });

  test("get your address, key and model, and nothing of the guide's is left", () => {
    const values = { address: "https://sluice.example.com", key: "sk-gw_mine", model: "fast" };
    for (const { blocks } of clients) {
      for (const { text } of blocks) expect(filledIn(text, values)).not.toMatch(/127\.0\.0\.1:4400|sk-your-key|your-model/);
    }
  });

  test("in a container reach a gateway on this machine by another name", () => {
    const text = "http://host.docker.internal:4400/v1";
    expect(filledIn(text, { address: "http://127.0.0.1:4470", key: "", model: "" })).toBe("http://host.docker.internal:4470/v1");
    expect(filledIn(text, { address: "https://sluice.example.com", key: "", model: "" })).toBe("https://sluice.example.com/v1");
  });
});

test("a client is set up with a model that chats, if one looks like it", () => {
  expect(likelyChatModel(["embedded/flite", "embedded/stories-15m", "embedded/whisper-base"])).toBe("embedded/stories-15m");
  expect([likelyChatModel(["tts-1"]), likelyChatModel([])]).toEqual(["tts-1", ""]);
});
