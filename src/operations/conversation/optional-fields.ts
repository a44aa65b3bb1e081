import type { Conversation, Sampling } from "./conversation.ts";

/** A field of a request that an answer can do without, by the name that it has in most APIs of upstreams. */
export type OptionalField = keyof typeof samplingKeys | keyof typeof otherKeys;

const samplingKeys = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  seed: "seed",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
} as const satisfies Readonly<Record<string, keyof Sampling>>;

const otherKeys = {
  reasoning_effort: "reasoning",
  verbosity: "verbosity",
  service_tier: "serviceTier",
  parallel_tool_calls: "parallelToolCalls",
  prompt_cache_key: "promptCacheKey",
  user: "endUser",
} as const satisfies Readonly<Record<string, keyof Conversation>>;

const otherNames: ReadonlyMap<string, OptionalField> = new Map<string, OptionalField>([
  ["reasoning", "reasoning_effort"],
  ["reasoning.effort", "reasoning_effort"],
  ["text.verbosity", "verbosity"],
  ["safety_identifier", "user"],
]);

/** The field that an upstream means by a parameter; null where the answer cannot do without it. */
export function optionalField(param: string): OptionalField | null {
  return Object.hasOwn(samplingKeys, param) || Object.hasOwn(otherKeys, param) ? (param as OptionalField) : (otherNames.get(param) ?? null);
}

/** The conversation without some fields. Those that it had are named as not carried, unless that makes no difference. */
export function withoutFields(conversation: Conversation, fields: readonly OptionalField[]): Conversation {
  let rest = conversation;
  for (const field of fields) {
    const without = isSampling(field) ? withoutSampling(rest, samplingKeys[field]) : withoutOther(rest, otherKeys[field]);
    // Not to reason is what a model does anyway that cannot be asked to.
    const isSame = without === rest || (field === "reasoning_effort" && rest.reasoning?.effort === "none");
    rest = isSame ? without : { ...without, uncarried: [...without.uncarried, field] };
  }
  return rest;
}

function isSampling(field: OptionalField): field is keyof typeof samplingKeys {
  return Object.hasOwn(samplingKeys, field);
}

function withoutSampling(conversation: Conversation, key: keyof Sampling): Conversation {
  const { sampling } = conversation;
  return sampling[key] === null ? conversation : { ...conversation, sampling: { ...sampling, [key]: null } };
}

function withoutOther(conversation: Conversation, key: (typeof otherKeys)[keyof typeof otherKeys]): Conversation {
  return conversation[key] === null ? conversation : { ...conversation, [key]: null };
}
