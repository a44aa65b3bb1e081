import { expect, test } from "bun:test";
import { authenticate, KeyRing } from "../../../src/http/authenticate.ts";
import type { Key } from "../../../src/keys/key.ts";
import type { IncomingRequest } from "../../../src/net/server/incoming-request.ts";
import { newKey } from "../../support/new-key.ts";

const key: Key = { id: "one", ...newKey };
const ring = new KeyRing([{ key, token: "sk-one" }], new Uint8Array(32));

function opened(headers: Readonly<Record<string, string>>): unknown {
  return authenticate({ header: (name: string) => headers[name] ?? null } as IncomingRequest, ring, 0);
}

test.each([
  ["the usual header", { authorization: "Bearer sk-one" }],
  ["one of another API", { "x-api-key": "sk-one" }],
  ["both", { authorization: "Bearer sk-one", "x-api-key": "sk-one" }],
  ["one, and nothing in the other", { authorization: "Bearer sk-one", "x-api-key": "" }],
  ["the other, and nothing in one", { authorization: "", "x-api-key": "", "api-key": "sk-one" }],
])("a key is found in %s", (_, headers) => {
  expect(opened(headers)).toBe(key);
});

test.each([
  ["nothing is no key", { "x-api-key": "" }, "invalid_api_key"],
  ["and two keys are one too many", { authorization: "Bearer sk-one", "x-api-key": "sk-two" }, "ambiguous_credentials"],
])("%s", (_, headers, code) => {
  expect(opened(headers)).toMatchObject({ code });
});
