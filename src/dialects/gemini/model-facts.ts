import type { ReasoningEffort } from "../../operations/conversation/conversation.ts";

/** What a generation of models takes. The API refuses a field that a model does not know, with the status of a client's mistake. */
export interface ModelFacts {
  readonly thinking: ThinkingControl;
  /** Calls and their results have ids. Older models refuse the field, and tell results apart by name and order. */
  readonly callIds: boolean;
  /** Refuses the calls of earlier answers without the signature that they came with. */
  readonly signedCalls: boolean;
  /** Takes images and files inside of a result; elsewhere they stand beside it. */
  readonly resultMedia: boolean;
  /** Answers in a schema also where tools are declared. */
  readonly schemaBesideTools: boolean;
  /** Searches the web also where tools are declared. */
  readonly searchBesideTools: boolean;
  /** Takes JSON schemas; elsewhere a subset of those of OpenAPI 3.0. */
  readonly jsonSchema: boolean;
  /** Fetches media from a public URL. */
  readonly fetchesUrls: boolean;
  readonly penalties: boolean;
  readonly systemInstruction: boolean;
}

export type ThinkingControl =
  | { readonly kind: "none" }
  /** Levels, of which a model has only some. It cannot be switched off. */
  | { readonly kind: "level"; readonly levels: readonly ThinkingLevel[] }
  /** A number of tokens. `least` is zero where it can be switched off. */
  | { readonly kind: "budget"; readonly least: number; readonly smallest: number; readonly most: number };

export type ThinkingLevel = "MINIMAL" | "LOW" | "MEDIUM" | "HIGH";

const current: ModelFacts = {
  // The one that every model of this generation has.
  thinking: { kind: "level", levels: ["LOW", "MEDIUM", "HIGH"] },
  callIds: true,
  signedCalls: true,
  resultMedia: true,
  schemaBesideTools: true,
  searchBesideTools: true,
  jsonSchema: true,
  fetchesUrls: true,
  penalties: false,
  systemInstruction: true,
};

const everyLevel: ThinkingControl = { kind: "level", levels: ["MINIMAL", "LOW", "MEDIUM", "HIGH"] };

const second: ModelFacts = {
  ...current,
  thinking: { kind: "budget", least: 0, smallest: 1, most: 24_576 },
  callIds: false,
  signedCalls: false,
  resultMedia: false,
  schemaBesideTools: false,
  searchBesideTools: false,
};

const old: ModelFacts = { ...second, thinking: { kind: "none" }, jsonSchema: false, fetchesUrls: false, penalties: true };

/** The first that matches counts. A name that nobody has heard of is that of a newer model. */
const known: readonly (readonly [name: RegExp, facts: ModelFacts])[] = [
  [/^gemini-1|^gemini-pro|^gemini-2\.0/, old],
  [/^gemini-2\.5-pro/, { ...second, thinking: { kind: "budget", least: 128, smallest: 128, most: 32_768 } }],
  [/^gemini-2\.5-flash-lite/, { ...second, thinking: { kind: "budget", least: 0, smallest: 512, most: 24_576 } }],
  [/^gemini-2/, second],
  [/^gemini-3-pro/, { ...current, thinking: { kind: "level", levels: ["LOW", "HIGH"] } }],
  [/^gemini-3(?:\.[1-6])?-flash/, { ...current, thinking: everyLevel }],
  [/^gemma-[123]/, { ...old, systemInstruction: false }],
  [/^gemma/, { ...second, thinking: { kind: "none" } }],
];

export function modelFacts(model: string): ModelFacts {
  const name = model.slice(model.lastIndexOf("/") + 1).toLowerCase();
  return known.find(([pattern]) => pattern.test(name))?.[1] ?? current;
}

/** The level for an effort: the same if the model has it, else the next one up, else the highest. */
export function levelFor(effort: ReasoningEffort, levels: readonly ThinkingLevel[]): ThinkingLevel {
  const known = effort === "none" ? "minimal" : effort === "xhigh" || effort === "max" ? "high" : effort;
  const wanted = order.indexOf(known.toUpperCase() as Uppercase<typeof known>);
  return levels.find((level) => order.indexOf(level) >= wanted) ?? levels.at(-1) ?? "HIGH";
}

const order: readonly ThinkingLevel[] = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];

/** The budget for an effort, as the provider itself reads it in its endpoint for the OpenAI API. */
export function budgetFor(effort: ReasoningEffort, most: number): number {
  switch (effort) {
    case "none":
      return 0;
    case "minimal":
    case "low":
      return 1024;
    case "medium":
      return 8192;
    case "high":
      return 24_576;
    case "xhigh":
    case "max":
      return most;
  }
}

/** Where a model has levels: the one that is commonly given so many tokens. */
export function effortFor(budgetTokens: number): ReasoningEffort {
  if (budgetTokens <= 0) return "none";
  if (budgetTokens < 4096) return "low";
  return budgetTokens < 16_384 ? "medium" : "high";
}
