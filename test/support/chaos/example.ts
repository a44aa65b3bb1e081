import { fieldsOf, listOf, textOf } from "./ask.ts";

/** A value that fulfils a simple JSON Schema; its strings carry the tag, so that their origin shows. */
export function exampleOf(schema: unknown, tag: string): unknown {
  const fields = fieldsOf(schema);
  if ("const" in fields) return fields["const"];
  const allowed = listOf(fields["enum"]);
  if (allowed.length > 0) return allowed[0];
  const variants = listOf(fields["anyOf"] ?? fields["oneOf"]);
  if (variants.length > 0) return exampleOf(variants[0], tag);
  switch (textOf(fields["type"]) ?? listOf(fields["type"])[0] ?? "object") {
    case "string":
      return tag;
    case "number":
      return 1.5;
    case "integer":
      return 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return [exampleOf(fields["items"] ?? { type: "string" }, `${tag}:0`)];
    default:
      return Object.fromEntries(
        Object.entries(fieldsOf(fields["properties"])).map(([name, property]) => [name, exampleOf(property, `${tag}:${name}`)]),
      );
  }
}
