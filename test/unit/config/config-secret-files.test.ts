import { describe, expect, test } from "bun:test";
import { withSecretFiles } from "../../../src/config/interpolate.ts";
import { readDocument } from "../../../src/config/document.ts";

const files = new Map([
  ["/run/secrets/key", "sk-secret\n"],
  ["/run/secrets/windows", "sk-secret\r\n"],
  ["/run/secrets/lines", "one\ntwo\n\n"],
  ["/run/secrets/odd", "${OTHER} ' \" $"],
]);
const read = (path: string): string | null => files.get(path) ?? null;

describe("a variable whose value is in a file", () => {
  test.each([
    ["a file alone", { KEY_FILE: "/run/secrets/key" }, "sk-secret"],
    ["a file with line ends of Windows", { KEY_FILE: "/run/secrets/windows" }, "sk-secret"],
    ["a file of several lines", { KEY_FILE: "/run/secrets/lines" }, "one\ntwo"],
    ["the variable itself, which wins", { KEY: "own", KEY_FILE: "/run/secrets/key" }, "own"],
    ["an empty variable beside the file", { KEY: "", KEY_FILE: "/run/secrets/key" }, "sk-secret"],
    ["an empty name of a file", { KEY_FILE: "" }, undefined],
    ["a file that is not there", { KEY_FILE: "/nowhere" }, undefined],
  ])("has it from %s", (_, environment, expected) => {
    for (const text of ["key: ${KEY}", "key: ${KEY:-default}"])
      expect(withSecretFiles(text, environment, read)["KEY"]).toBe(expected as string);
  });

  test("is read only where the text asks for it, and once", () => {
    const asked: string[] = [];
    const environment = { KEY_FILE: "/run/secrets/key", SSL_CERT_FILE: "/etc/ssl/cert.pem" };
    withSecretFiles("a: ${KEY}\nb: ${KEY}\nc: $${SSL", environment, (path) => {
      asked.push(path);
      return null;
    });
    expect(asked).toEqual(["/run/secrets/key"]);
  });

  test("is taken as it is, whatever it contains", async () => {
    const environment = withSecretFiles("key: ${KEY}", { KEY_FILE: "/run/secrets/odd" }, read);
    expect(await readDocument("key: ${KEY}", environment)).toMatchObject({ value: { key: "${OTHER} ' \" $" } });
  });

  test("is missed with the name of the file's variable, where the file cannot be read", async () => {
    const environment = withSecretFiles("listen: ${PLACE}", { PLACE_FILE: "/nowhere" }, read);
    expect(await readDocument("listen: ${PLACE}", environment)).toMatchObject({
      problems: [{ line: 1, path: "listen", reason: expect.stringContaining("PLACE_FILE names cannot be read") }],
    });
  });
});
