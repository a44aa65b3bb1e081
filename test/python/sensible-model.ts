import { chatWire } from "../agents/wires/chat.ts";
import { list, object, type Json, type ScriptedTurn } from "../agents/wires/wire.ts";

/** What it says where nothing is wanted of it but a text. */
export const sensibleText = "It is sunny.";

/**
 * An upstream of chat completions that does what is asked of it: it calls a tool where it has one, with arguments after its schema, answers
 * after the results, and writes JSON where a schema is given. As `thinking` it says first what it thinks.
 */
export function startSensibleModel(): Bun.Server<undefined> {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const body = (await request.json()) as Json;
      const asked = chatWire.read(body, "");
      const turn = turnFor(body);
      if (!asked.stream) return Response.json(chatWire.whole(turn, asked));
      return new Response(chatWire.events(turn, asked).join(""), { headers: { "content-type": chatWire.contentType } });
    },
  });
}

function turnFor(body: Json): ScriptedTurn {
  const thought = body["model"] === "thinking" ? "Somebody asks for the weather." : "";
  const messages = list(body["messages"]);
  const question = JSON.stringify(messages.findLast(({ role }) => role === "user") ?? "");
  const tools = list(body["tools"]).map(({ function: tool }) => object(tool));
  const tool = toolFor(tools, body["tool_choice"], messages.at(-1)?.["role"] === "tool");
  if (tool !== undefined) {
    const args = object(example(object(tool["parameters"]), object(tool["parameters"]), question));
    return { thought, text: "", call: { id: `call_${messages.length}`, name: String(tool["name"]), arguments: args } };
  }
  const format = object(body["response_format"]);
  const schema = object(object(format["json_schema"])["schema"]);
  const isJson = format["type"] === "json_schema" || format["type"] === "json_object";
  return { thought, text: isJson ? JSON.stringify(example(schema, schema, question)) : sensibleText, call: null };
}

/** After a result, only a client that insists gets another call: of the last tool, where frameworks have the one that takes the answer. */
function toolFor(tools: readonly Json[], choice: unknown, isAnswered: boolean): Json | undefined {
  const name = object(object(choice)["function"])["name"];
  if (name !== undefined) return tools.find((tool) => tool["name"] === name);
  if (choice === "none") return undefined;
  if (isAnswered) return choice === "required" ? tools.at(-1) : undefined;
  return tools[0];
}

/** A value that fulfils a schema, with the Chinese words of the question, if it has some. `root` holds the definitions. */
function example(schema: Json, root: Json, question: string): unknown {
  const reference = schema["$ref"];
  if (typeof reference === "string") return example(resolved(reference, root), root, question);
  if ("const" in schema) return schema["const"];
  if (Array.isArray(schema["enum"])) return schema["enum"][0] as unknown;
  const [variant] = list(schema["anyOf"] ?? schema["allOf"]);
  if (variant !== undefined) return example(variant, root, question);
  switch (schema["type"] ?? "object") {
    case "string":
      return /\p{Script=Han}+/u.exec(question)?.[0] ?? "Bern";
    case "integer":
      return 3;
    case "number":
      return 1.5;
    case "boolean":
      return true;
    case "array":
      return [example(object(schema["items"]), root, question)];
    case "object":
      return Object.fromEntries(
        Object.entries(object(schema["properties"])).map(([name, value]) => [name, example(object(value), root, question)]),
      );
    default:
      return null;
  }
}

function resolved(reference: string, root: Json): Json {
  return reference
    .split("/")
    .slice(1)
    .reduce<Json>((at, name) => object(at[name]), root);
}
