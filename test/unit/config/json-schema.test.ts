import { Validator } from "@cfworker/json-schema";
import { describe, expect, test } from "bun:test";
import { parse } from "yaml";
import type { z } from "zod";
import { schemaFiles } from "../../../scripts/docs.ts";
import { notesOf, shapeOf } from "../../../src/config/field.ts";
import { publishedSchema, publishedSchemaText } from "../../../src/config/json-schema/published.ts";
import { variableDefinition } from "../../../src/config/json-schema/fragment.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { resourceFileSchema } from "../../../src/config/resource-file/schema.ts";
import { fileSchema } from "../../../src/config/schema.ts";
import { blocksOf } from "../../support/guides.ts";

const names = ["configuration", "resources"] as const;
const root = new URL("../../../", import.meta.url);
const validator = new Validator(publishedSchema("configuration"), "7", false);
const accepts = (value: unknown): boolean => validator.validate(value).valid;

interface Leaf {
  readonly path: string;
  readonly setting: z.ZodType;
}

function* leavesOf(schema: z.core.$ZodType, path: string): Generator<Leaf> {
  for (const [name, setting] of Object.entries(shapeOf(schema) ?? {})) {
    if (shapeOf(setting) === null) yield { path: `${path}${name}`, setting: setting as z.ZodType };
    else yield* leavesOf(setting, `${path}${name}.`);
  }
}

const leaves = [...leavesOf(fileSchema, ""), ...leavesOf(resourceFileSchema, "")];

describe("the JSON Schema", () => {
  test.each(names)("of %s is published as it is (sh bin/bun scripts/docs.ts writes it)", async (name) => {
    expect(await Bun.file(schemaFiles[name]).text()).toBe(publishedSchemaText(name));
  });

  test("is named in the first line of the example, where editors look for it", async () => {
    const example = await Bun.file(new URL("examples/sluice.yaml", root)).text();
    const named = /^# yaml-language-server: \$schema=(\S+)\n/.exec(example)?.[1];
    expect(new URL(named ?? "", new URL("examples/", root)).href).toBe(schemaFiles.configuration.href);
    expect(validator.validate(parse(example))).toMatchObject({ valid: true, errors: [] });
  });

  test("accepts every configuration and every resource file in the documentation", () => {
    const settings = Object.keys(shapeOf(fileSchema) ?? {});
    const resources = new Validator(publishedSchema("resources"), "7", false);
    const checked = { configuration: 0, resources: 0 };
    const pages = ["README.md", ...new Bun.Glob("docs/**/*.md").scanSync(root.pathname)];
    for (const page of pages) {
      for (const { language, title, text } of blocksOf(page)) {
        const value: unknown = language === "yaml" ? parse(text) : null;
        // Some pages show files of other programs.
        if (!Object.keys(value ?? {}).some((name) => settings.includes(name))) continue;
        const name = title === "resources.yaml" ? "resources" : "configuration";
        checked[name] += 1;
        expect([page, text, (name === "resources" ? resources : validator).validate(value).errors]).toEqual([page, text, []]);
      }
    }
    expect(checked.configuration).toBeGreaterThan(10);
    expect(checked.resources).toBeGreaterThan(0);
  });

  test.each([
    ["nothing at all", {}],
    ["an unknown setting", { listening: "127.0.0.1:1" }],
    ["an unknown setting inside a group", { routing: { attempt: 3 } }],
    ["an unknown setting of a channel", { channels: [{ name: "a", provider: "openai", colour: "red" }] }],
    ["a channel without a name", { channels: [{ provider: "ollama" }] }],
    ["a channel of an unknown provider", { channels: [{ name: "a", provider: "openay" }] }],
    ["a key without its secret", { keys: [{ name: "app" }] }],
    ["a list that is a group", { channels: { name: "a" } }],
    ["a group that is a list", { routing: [] }],
    ["a group without contents", { routing: null }],
    ["a number where a duration belongs", { routing: { wait: 20 } }],
    ["a duration of an unknown unit", { routing: { wait: "20 minutes" } }],
    ["a port alone", { listen: 4400 }],
    ["a number out of range", { routing: { attempts: 11 } }],
    ["a fraction of an attempt", { routing: { attempts: 1.5 } }],
    ["an address without a scheme", { channels: [{ name: "a", base_url: "api.example.com" }] }],
    ["an address with a query", { channels: [{ name: "a", base_url: "https://api.example.com/?key=1" }] }],
    ["an empty list of models", { channels: [{ name: "a", base_url: "https://a.example", models: [] }] }],
    ["a star in a model's name", { channels: [{ name: "a", base_url: "https://a.example", models: ["gpt-*"] }] }],
    ["a header that is none", { channels: [{ name: "a", base_url: "https://a.example", headers: { "x y": "1" } }] }],
    ["a date that is none", { keys: [{ name: "a", key: "0123456789abcdef", expires: "tomorrow" }] }],
    ["a negative price", { prices: [{ model: "m", input: -1 }] }],
    ["a store that does not exist", { store: "mysql://host/db" }],
    ["words for a switch", { admin_tls: "yes" }],
  ])("refuses %s, as the reader does", async (_, value) => {
    expect(accepts(value)).toBe(false);
    expect(await loadConfig({ path: null, text: JSON.stringify(value), env: {}, nofile: 1024 })).toMatchObject({ ok: false });
  });

  test("has every setting of the reader, with its description and its default", () => {
    const described = (schema: z.core.$ZodType, fragment: Record<string, unknown>, path: string): void => {
      const properties = (fragment["properties"] ?? {}) as Record<string, Record<string, unknown>>;
      const shape = shapeOf(schema) ?? {};
      expect([path, Object.keys(properties)]).toEqual([path, Object.keys(shape)]);
      expect([path, fragment["additionalProperties"]]).toEqual([path, false]);
      for (const [name, setting] of Object.entries(shape)) {
        const notes = notesOf(setting);
        const property = properties[name] ?? {};
        expect([path, name, property["description"]]).toEqual([path, name, expect.stringContaining(notes?.about ?? "no notes")]);
        expect([path, name, property["default"]]).toEqual([path, name, notes?.defaultValue]);
        if (shapeOf(setting) !== null) described(setting, (property["items"] ?? property) as Record<string, unknown>, `${path}${name}.`);
      }
    };
    described(fileSchema, publishedSchema("configuration"), "");
    described(resourceFileSchema, publishedSchema("resources"), "");
  });

  test("accepts what the reader accepts, and refuses what has the wrong form for every setting", () => {
    const texts = ["x", "a.b", "true", "off", "auto", "5", "0.5", "5s", "64MiB", "127.0.0.1:1", "https://a.example/v1", "2030-01-01", "*"];
    const more = [
      "sqlite",
      "memory",
      "postgres://h/d",
      "redis://h",
      "x-team",
      "us-east-1",
      "0".repeat(64),
      "openai",
      "chat",
      "json",
      "mp3",
      "HTTPS://A.example/v1/",
      "http://localhost:1",
      "unix:/run/sluice.sock",
      "[::1]:1",
      "fd00::/8",
      "660",
      " .5e1 ",
      "1.5 h",
      "25 MB",
      "2030-01-01T12:00:00.5+01:00",
      "app://x",
    ];
    const forms = [null, true, false, 0, 1, 0.5, -1, 1e30, [], {}, [[]], [{}], [1], [null], { a: 1 }, { a: null }, { a: {} }, { a: [] }];
    const wholes = [["x"], ["x", "x"], ["chat"], { a: "b" }, { "x-a": "b" }, ["json"], ["mp3"], ["https://a.example"], ["*"]];
    expect(leaves.length).toBeGreaterThan(120);
    for (const { path, setting } of leaves) {
      const fragment = { ...notesOf(setting)?.json, definitions: { variable: variableDefinition } };
      const own = new Validator(fragment, "7");
      const verdicts = (value: unknown) => [path, value, own.validate(value).valid];
      for (const value of [...texts, ...more]) if (setting.safeParse(value).success) expect(verdicts(value)).toEqual([path, value, true]);
      for (const value of [...forms, ...wholes]) expect(verdicts(value)).toEqual([path, value, setting.safeParse(value).success]);
      // A variable may stand wherever text may; never for a whole list or group.
      if (!["array", "object"].includes(String(fragment["type" as never])))
        expect(verdicts("${ANY:-x}")).toEqual([path, "${ANY:-x}", true]);
    }
  });
});
