import { expect, test } from "bun:test";
import { userName } from "../../../src/cli/user-name.ts";

test("a command is given by the user of that number in the system's list, whatever the environment says", () => {
  expect(userName(0, "/etc/passwd")).toBe("root");
});

test("a user that no list knows has a name all the same, and so has one on a system without a list", () => {
  for (const users of ["/dev/null", "/nowhere/passwd"]) expect(userName(65_532, users)).not.toBe("");
});
