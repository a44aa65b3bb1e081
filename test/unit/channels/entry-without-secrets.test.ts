import { expect, test } from "bun:test";
import { entryWithoutSecrets } from "../../../src/channels/entry-without-secrets.ts";

test("the settings of a channel are shown without passwords in addresses, at any depth, and without the values of headers", () => {
  const entry = {
    base_url: "https://ada:secret@api.example.com/v1",
    models: { "gpt-4o": { upstream: "wss://token@rt.example.com" } },
    tags: ["a@b", "//key@host"],
    headers: { authorization: "Bearer sk-1" },
  };
  expect(entryWithoutSecrets(entry)).toEqual({
    base_url: "https://****@api.example.com/v1",
    models: { "gpt-4o": { upstream: "wss://****@rt.example.com" } },
    tags: ["a@b", "//****@host"],
    headers: { authorization: "****" },
  });
});
