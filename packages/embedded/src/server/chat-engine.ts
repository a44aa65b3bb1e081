import type { EmbeddedModel } from "../catalog.ts";
import type { StoryWishes } from "../chat/stories.ts";
import { answerEvents, answerWhole, type AnswerHead } from "./chat-answer.ts";
import { mannerOf, type ChatManner } from "./chat-manner.ts";
import { chosenModel } from "./chosen-model.ts";
import type { Engine, Order } from "./engine.ts";
import { checkBoolean, checkInteger, checkNumber, firstRefusal, readFields, unsupported, type Fields } from "./fields.ts";
import { oneLoaded } from "./one-loaded.ts";
import { isRefusal, refusal, type Refusal } from "./refusal.ts";
import type { ServedModels } from "./served-models.ts";

const stopsMax = 4;
const stopCharactersMax = 1000;

export function makeChatEngine(models: ServedModels, manner: (model: EmbeddedModel) => ChatManner = mannerOf): Engine {
  const loaded = oneLoaded(
    (model, directory) => manner(model).load(directory),
    (talker) => talker.close(),
  );

  async function read(request: Request): Promise<Order | Refusal> {
    const fields = await readFields(request);
    if (isRefusal(fields)) return fields;
    const model = chosenModel(models(), fields["model"]);
    if (isRefusal(model)) return model;
    const refused = firstRefusal([checkNumbers(fields), checkStop(fields["stop"]), checkStream(fields), checkAbilities(fields)]);
    if (refused !== null) return refused;
    const turns = manner(model).read(fields["messages"]);
    if (isRefusal(turns)) return turns;
    const wishes = wishesOf(fields, manner(model));
    const streamed = fields["stream"] === true;
    const wantsUsage = (fields["stream_options"] as Fields | null | undefined)?.["include_usage"] === true;

    return async (signal, worked) => {
      const talker = await loaded(model);
      if (isRefusal(talker)) return talker;
      const prompt = talker.prompt(turns);
      if (prompt === null) return tooLong(model, talker.contextMax);
      const head: AnswerHead = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(Date.now() / 1000),
        model: model.upstream,
        promptTokens: prompt.length,
      };
      const parts = talker.tell(prompt, wishes);
      if (streamed) return { type: "text/event-stream", body: answerEvents(head, parts, wantsUsage, signal) };
      return { type: "application/json", body: await answerWhole(head, parts, signal, worked) };
    };
  }

  return { models, routes: new Map([["/v1/chat/completions", read]]), requestBytesMax: 4 * 1024 * 1024 };
}

function wishesOf(fields: Fields, { temperatureDefault, topPDefault }: ChatManner): StoryWishes {
  const stop = fields["stop"];
  return {
    temperature: Number(fields["temperature"] ?? temperatureDefault),
    topP: Number(fields["top_p"] ?? topPDefault),
    frequencyPenalty: Number(fields["frequency_penalty"] ?? 0),
    presencePenalty: Number(fields["presence_penalty"] ?? 0),
    tokensMax: Number(fields["max_completion_tokens"] ?? fields["max_tokens"] ?? Infinity),
    stop: stop == null ? [] : typeof stop === "string" ? [stop] : (stop as readonly string[]),
    seed: fields["seed"] == null ? null : String(Number(fields["seed"])),
  };
}

function checkNumbers(fields: Fields): Refusal | null {
  return firstRefusal([
    checkNumber(fields, "temperature", 0, 2),
    checkNumber(fields, "top_p", 0, 1),
    checkNumber(fields, "frequency_penalty", -2, 2),
    checkNumber(fields, "presence_penalty", -2, 2),
    checkInteger(fields, "max_tokens", 1),
    checkInteger(fields, "max_completion_tokens", 1),
    checkInteger(fields, "n", 1),
    checkInteger(fields, "seed", -Infinity),
  ]);
}

function checkStop(stop: unknown): Refusal | null {
  if (stop == null) return null;
  const list: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
  const fine = list.length <= stopsMax && list.every((item) => typeof item === "string" && item !== "" && item.length <= stopCharactersMax);
  if (fine) return null;
  return refusal(400, `\`stop\` must be a string, or up to ${stopsMax} of them, none of them empty.`, {
    param: "stop",
    code: "invalid_value",
  });
}

function checkStream(fields: Fields): Refusal | null {
  const options = fields["stream_options"];
  if (options == null) return checkBoolean(fields, "stream");
  if (typeof options !== "object")
    return refusal(400, "`stream_options` must be an object.", { param: "stream_options", code: "invalid_type" });
  if (fields["stream"] === true) return checkBoolean(options as Fields, "include_usage");
  return refusal(400, "`stream_options` is for streams only.", { param: "stream_options", code: "invalid_value" });
}

/** What the model cannot do is refused, never passed over: the client would take the answer for one that obeyed. */
function checkAbilities(fields: Fields): Refusal | null {
  const wanted: readonly (readonly [param: string, wanted: boolean, message: string])[] = [
    ["tools", isFilled(fields["tools"]), "This model calls no tools."],
    ["functions", isFilled(fields["functions"]), "This model calls no functions."],
    ["tool_choice", isChosen(fields["tool_choice"]), "This model calls no tools."],
    ["response_format", wantsForm(fields["response_format"]), "This model writes plain text and keeps to no format."],
    ["n", fields["n"] != null && fields["n"] !== 1, "This model gives one answer at a time."],
    ["logprobs", fields["logprobs"] != null && fields["logprobs"] !== false, "This model's probabilities are not given out."],
    ["top_logprobs", isPositive(fields["top_logprobs"]), "This model's probabilities are not given out."],
    ["logit_bias", isFilled(fields["logit_bias"]), "This model takes no bias."],
    [
      "modalities",
      Array.isArray(fields["modalities"]) && fields["modalities"].some((item) => item !== "text"),
      "This model writes text only.",
    ],
    ["audio", fields["audio"] != null, "This model writes text only."],
    ["prediction", fields["prediction"] != null, "This model takes no prediction."],
    ["web_search_options", fields["web_search_options"] != null, "This model has no access to the web."],
    ["reasoning_effort", fields["reasoning_effort"] != null && fields["reasoning_effort"] !== "none", "This model does not reason."],
  ];
  const found = wanted.find(([, isWanted]) => isWanted);
  return found === undefined ? null : unsupported(found[0], found[2]);
}

function isFilled(value: unknown): boolean {
  return value != null && (typeof value !== "object" || Object.keys(value).length > 0);
}

function isChosen(value: unknown): boolean {
  return value != null && value !== "none" && value !== "auto";
}

function isPositive(value: unknown): boolean {
  return value != null && value !== 0;
}

function wantsForm(value: unknown): boolean {
  return value != null && (value as Fields)["type"] !== "text";
}

function tooLong(model: EmbeddedModel, contextMax: number): Refusal {
  const message = `The prompt is too long: this model's maximum context length is ${contextMax} tokens, prompt and answer together.`;
  return refusal(400, `${model.id}: ${message}`, { param: "messages", code: "context_length_exceeded" });
}
