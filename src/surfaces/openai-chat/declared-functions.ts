import type { Tool, ToolChoice } from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import type { JsonObject } from "../../operations/json.ts";
import { cacheMarker } from "./content.ts";
import type { FieldReader } from "../field-reader.ts";
import type { Uncarried } from "../uncarried.ts";

export interface ChatTools {
  readonly tools: readonly Tool[];
  readonly choice: ToolChoice | null;
  readonly parallel: boolean | null;
}

/** The tools of a request and how they may be called, in today's fields or in those that came before them. */
export function chatTools(body: JsonObject, fields: FieldReader, uncarried: Uncarried): ChatTools {
  const declared = distinct([
    ...toolsOf(fields.optionalList(body["tools"], "tools"), fields, uncarried),
    ...functionsOf(fields.optionalList(body["functions"], "functions"), fields),
  ]);
  const isLegacy = body["tool_choice"] == null;
  const value = isLegacy ? body["function_call"] : body["tool_choice"];
  const { choice, allowed } = choiceOf(value, isLegacy ? "function_call" : "tool_choice", fields, uncarried);
  const tools = allowed === null ? declared : declared.filter(({ name }) => allowed.has(name));
  const parallel = fields.optionalBoolean(body["parallel_tool_calls"], "parallel_tool_calls");
  // Upstreams refuse a choice where there is nothing to choose from.
  if (tools.length === 0) {
    if (choice !== null && choice.kind !== "auto" && choice.kind !== "none") uncarried.add("tool_choice");
    return { tools, choice: null, parallel: null };
  }
  if (choice?.kind === "named" && !tools.some(({ name }) => name === choice.name)) {
    fields.invalid("tool_choice", "'tool_choice' names no tool of 'tools'.");
  }
  return { tools, choice, parallel: writesFunctionCall(body) ? false : parallel };
}

/** A client that declares `functions`, as before there were tools, reads one call at most, and finds it in another field. */
export function writesFunctionCall(body: JsonObject): boolean {
  return body["tools"] == null && body["functions"] != null;
}

function toolsOf(values: readonly unknown[], fields: FieldReader, uncarried: Uncarried): readonly Tool[] {
  const tools: Tool[] = [];
  for (const [index, value] of values.entries()) {
    const path = `tools.${index}`;
    const tool = fields.object(value, path);
    if (fields.mistake !== null) break;
    const type = fields.optionalText(tool["type"], `${path}.type`) ?? "function";
    if (type === "function") {
      const declared = fields.object(tool["function"], `${path}.function`);
      const cache = cacheMarker(tool) ?? cacheMarker(declared);
      tools.push({ ...functionOf(declared, `${path}.function`, fields), ...(cache === null ? undefined : { cache }) });
    } else if (type === "custom") tools.push(customOf(fields.object(tool["custom"], `${path}.custom`), `${path}.custom`, fields));
    // It runs at the upstream, and each upstream has others.
    else uncarried.add(`tools.${type}`);
  }
  return tools;
}

function functionsOf(values: readonly unknown[], fields: FieldReader): readonly Tool[] {
  const tools: Tool[] = [];
  for (const [index, value] of values.entries()) {
    const declared = fields.object(value, `functions.${index}`);
    if (fields.mistake !== null) break;
    tools.push(functionOf(declared, `functions.${index}`, fields));
  }
  return tools;
}

function functionOf(declared: JsonObject, path: string, fields: FieldReader): Tool {
  return {
    name: fields.name(declared["name"], `${path}.name`),
    description: fields.optionalText(declared["description"], `${path}.description`),
    parameters: fields.optionalObject(declared["parameters"], `${path}.parameters`) ?? noParameters,
    strict: fields.optionalBoolean(declared["strict"], `${path}.strict`),
  };
}

const noParameters: JsonObject = { type: "object", properties: {} };

function customOf(custom: JsonObject, path: string, fields: FieldReader): Tool {
  const format = fields.optionalObject(custom["format"], `${path}.format`);
  const grammar = fields.optionalObject(format?.["grammar"], `${path}.format.grammar`);
  const syntax = grammar?.["syntax"];
  return {
    name: fields.name(custom["name"], `${path}.name`),
    description: fields.optionalText(custom["description"], `${path}.description`),
    parameters: null,
    strict: null,
    custom: {
      format: fields.optionalText(grammar?.["definition"], `${path}.format.grammar.definition`),
      ...(syntax === "lark" || syntax === "regex" ? { syntax } : undefined),
    },
  };
}

/** Upstreams refuse two tools of one name. */
function distinct(tools: readonly Tool[]): readonly Tool[] {
  const byName = new Map<string, Tool>();
  for (const tool of tools) if (!byName.has(wireName(tool))) byName.set(wireName(tool), tool);
  return [...byName.values()];
}

interface ChatToolChoice {
  readonly choice: ToolChoice | null;
  /** The names of the only tools that may be called; null: all may. */
  readonly allowed: ReadonlySet<string> | null;
}

function choiceOf(value: unknown, path: string, fields: FieldReader, uncarried: Uncarried): ChatToolChoice {
  const only = (choice: ToolChoice | null): ChatToolChoice => ({ choice, allowed: null });
  if (value == null) return only(null);
  if (typeof value === "string") {
    // Some providers say `any`.
    if (value === "required" || value === "any") return only({ kind: "required" });
    if (value === "auto" || value === "none") return only({ kind: value });
    fields.invalid(path, `'${path}' must be one of: none, auto, required, or an object.`);
    return only(null);
  }
  const choice = fields.object(value, path);
  const named = (key: "function" | "custom"): ChatToolChoice =>
    only({ kind: "named", name: fields.name(fields.object(choice[key], `${path}.${key}`)["name"], `${path}.${key}.name`) });
  if (path === "function_call") return only({ kind: "named", name: fields.name(choice["name"], `${path}.name`) });
  const type = fields.text(choice["type"], `${path}.type`);
  switch (type) {
    case "function":
    case "custom":
      return named(type);
    case "allowed_tools":
      return allowedOf(fields.object(choice["allowed_tools"], `${path}.allowed_tools`), `${path}.allowed_tools`, fields);
    default:
      uncarried.add(`tool_choice.${type}`);
      return only(null);
  }
}

/** No other API can allow some of the tools that it is told about: the others are not told. */
function allowedOf(allowed: JsonObject, path: string, fields: FieldReader): ChatToolChoice {
  const mode = fields.optionalChoice(allowed["mode"], ["auto", "required"], `${path}.mode`) ?? "auto";
  const names = new Set<string>();
  for (const [index, value] of fields.list(allowed["tools"], `${path}.tools`).entries()) {
    const tool = fields.object(value, `${path}.tools.${index}`);
    if (fields.mistake !== null) break;
    const key = tool["type"] === "custom" ? "custom" : "function";
    const place = `${path}.tools.${index}.${key}`;
    names.add(fields.name(fields.object(tool[key], place)["name"], `${place}.name`));
  }
  return { choice: { kind: mode }, allowed: names };
}
