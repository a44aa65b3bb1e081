import { expect, test } from "bun:test";
import { authenticate, KeyRing } from "../../../src/http/authenticate.ts";
import type { Key } from "../../../src/keys/key.ts";
import type { IncomingRequest } from "../../../src/net/server/incoming-request.ts";
import { GroupDirectory } from "../../../src/gateway/admission/group-directory.ts";
import { defaultGroup } from "../../../src/keys/stored-group.ts";
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

test.each([
  ["its group is missing", [], "The group of this key does not exist any more."],
  ["one above its group is missing", [["web", "gone"]], "The group above the team web does not exist any more"],
  [
    "one above those is missing",
    [
      ["web", "org"],
      ["org", "gone"],
    ],
    "or to move the team org to another place",
  ],
  [
    "there are too many levels",
    [
      ["web", "b"],
      ["b", "c"],
      ["c", "d"],
      ["d", null],
    ],
    "groups have at most 3 levels. Ask the operator of this gateway to move the team web",
  ],
  ["its group is below itself", [["web", "web"]], "The team web of this key is too deep"],
] as const)("a key that cannot be used because %s is told so, and how to fix it", async (_, parents, words) => {
  const groups = new GroupDirectory({
    read: () => Promise.resolve({ revision: 1, isWhole: true, groups: [] }),
    nowMs: () => 0,
    after: () => () => {},
    onChange: () => {},
  });
  groups.setFile(parents.map(([id, parent]) => ({ ...defaultGroup, kind: "team", frozen: false, id, name: id, parent })));
  const member: Key = { ...key, group: "web" };
  const keys = new KeyRing([{ key: member, token: "sk-one" }], new Uint8Array(32), undefined, groups);
  const request = { header: (name: string) => (name === "authorization" ? "Bearer sk-one" : null) } as IncomingRequest;
  const refused = await authenticate(request, keys, 0);
  expect(refused).toMatchObject({ status: 403, code: "group_missing", publicMessage: expect.stringContaining(words) });
});
