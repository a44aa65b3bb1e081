/** A part of a JSON Schema (draft 7, which editors support best). */
export type SchemaFragment = Readonly<Record<string, unknown>>;

/** Accepts text that contains a variable, whose value only the gateway knows. */
export const variableRef = { $ref: "#/definitions/variable" } as const;

export const variableDefinition: SchemaFragment = {
  type: "string",
  pattern: "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}",
  description: "Taken from the environment: ${NAME}, or ${NAME:-default}.",
};

/** A value may be given by a variable wherever it may be text; lists and groups may not. */
export function orVariable(fragment: SchemaFragment): SchemaFragment {
  if (fragment["type"] === "object" || fragment["type"] === "array") return fragment;
  const { anyOf } = fragment;
  return { anyOf: [...(Array.isArray(anyOf) ? (anyOf as readonly SchemaFragment[]) : [fragment]), variableRef] };
}

/** One of several forms. Nested alternatives become one list, because editors show each of them. */
export function anyOf(...fragments: readonly SchemaFragment[]): SchemaFragment {
  return {
    anyOf: fragments.flatMap((fragment) => (Array.isArray(fragment["anyOf"]) ? (fragment["anyOf"] as SchemaFragment[]) : [fragment])),
  };
}

export function pattern(expression: RegExp): SchemaFragment {
  return { type: "string", pattern: expression.source };
}
