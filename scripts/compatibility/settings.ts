import type { SurfaceName } from "../../src/operations/conversation/conversation.ts";

type Json = Readonly<Record<string, unknown>>;

const schema = {
  type: "object",
  properties: { city: { type: "string" }, size: { type: ["integer", "null"], minimum: 0 }, kind: { enum: ["a", "b"] } },
  required: ["city", "size", "kind"],
  additionalProperties: false,
};
const sampling = { temperature: 0.5, top_p: 0.9 };

/**
 * Every setting of a request that has tools, in each API of clients. Settings that exclude one another are in different requests. Where
 * an upstream has no place for one it is dropped; what is sent must still be a request that its provider knows.
 */
export const settingsOf: Readonly<Record<SurfaceName, readonly Json[]>> = {
  "openai-chat": [
    {
      ...{ ...sampling, presence_penalty: 0.1, frequency_penalty: 0.2, seed: 7, stop: ["END", "STOP"], tool_choice: "auto" },
      ...{ parallel_tool_calls: false, user: "u1", prompt_cache_key: "k1", service_tier: "default", verbosity: "low" },
    },
    { tool_choice: "required", reasoning_effort: "high", stop: "END" },
    { tool_choice: { type: "function", function: { name: "read_file" } }, reasoning_effort: "none" },
    { tool_choice: "none", reasoning_effort: "minimal", response_format: { type: "json_object" } },
    { reasoning_effort: "low", response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } },
  ],
  "anthropic-messages": [
    {
      ...{ ...sampling, top_k: 40, stop_sequences: ["END", "STOP"], tool_choice: { type: "auto", disable_parallel_tool_use: true } },
      ...{ metadata: { user_id: "u1" }, service_tier: "auto", cache_control: { type: "ephemeral" } },
    },
    {
      system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } }],
      tool_choice: { type: "any" },
      thinking: { type: "disabled" },
    },
    { tool_choice: { type: "tool", name: "read_file" } },
    { tool_choice: { type: "none" }, thinking: { type: "enabled", budget_tokens: 2000 } },
    { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "high", format: { type: "json_schema", schema } } },
  ],
  "openai-responses": [
    {
      ...{ ...sampling, tool_choice: "auto", parallel_tool_calls: false, prompt_cache_key: "k1", safety_identifier: "u1" },
      ...{ service_tier: "default", text: { verbosity: "low" }, metadata: { a: "b" }, truncation: "disabled" },
    },
    { tool_choice: "required", reasoning: { effort: "high", summary: "auto" } },
    { tool_choice: { type: "function", name: "read_file" }, reasoning: { effort: "none" } },
    { tool_choice: "none", reasoning: { effort: "minimal" }, text: { format: { type: "json_object" } } },
    { reasoning: { effort: "low" }, text: { format: { type: "json_schema", name: "answer", schema, strict: true } } },
    {
      tools: [
        { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: 'start: "x"' } },
        { type: "namespace", name: "files", description: "Files.", tools: [{ type: "function", name: "read", parameters: schema }] },
      ],
    },
  ],
  gemini: [
    {
      generationConfig: {
        ...{ temperature: 0.5, topP: 0.9, topK: 40, presencePenalty: 0.1, frequencyPenalty: 0.2, seed: 7, maxOutputTokens: 500 },
        ...{ stopSequences: ["END", "STOP"], candidateCount: 1, thinkingConfig: { thinkingBudget: 1024, includeThoughts: true } },
      },
      toolConfig: { functionCallingConfig: { mode: "AUTO" } },
    },
    {
      toolConfig: { functionCallingConfig: { mode: "ANY" } },
      generationConfig: { thinkingConfig: { thinkingLevel: "HIGH" } },
    },
    { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["read_file"] } } },
    {
      toolConfig: { functionCallingConfig: { mode: "NONE" } },
      generationConfig: { responseMimeType: "application/json", thinkingConfig: { thinkingBudget: 0 } },
    },
    { generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema } },
  ],
};
