import type { EmbeddedModel } from "../catalog.ts";
import type { GenerationOptions } from "../chat/stories.ts";
import { answerEvents, answerWhole, type AnswerHead } from "./chat-answer.ts";
import { backendOf, type ChatBackend } from "./chat-backend.ts";
import { findModel, type ServedModels } from "./served-models.ts";
import type { Engine, Job } from "./engine.ts";
import { checkBoolean, checkInteger, checkNumber, firstError, readFields, unsupported, type Fields } from "./fields.ts";
import { modelCache } from "./model-cache.ts";
import { isRequestError, requestError, type RequestError } from "./request-error.ts";

const stopsMax = 4;
const stopCharactersMax = 1000;

export function makeChatEngine(models: ServedModels, backend: (model: EmbeddedModel) => ChatBackend = backendOf): Engine {
  const load = modelCache(
    (model, directory) => backend(model).load(directory),
    (loadedModel) => loadedModel.close(),
  );

  async function read(request: Request): Promise<Job | RequestError> {
    const fields = await readFields(request);
    if (isRequestError(fields)) return fields;
    const model = findModel(models(), fields["model"]);
    if (isRequestError(model)) return model;
    const error = firstError([checkNumbers(fields), checkStop(fields["stop"]), checkStream(fields), checkAbilities(fields)]);
    if (error !== null) return error;
    const turns = backend(model).read(fields["messages"]);
    if (isRequestError(turns)) return turns;
    const options = optionsOf(fields, backend(model));
    const streamed = fields["stream"] === true;
    const wantsUsage = (fields["stream_options"] as Fields | null | undefined)?.["include_usage"] === true;

    return async (signal, worked) => {
      const loadedModel = await load(model);
      if (isRequestError(loadedModel)) return loadedModel;
      const prompt = loadedModel.prompt(turns);
      if (prompt === null) return tooLong(model, loadedModel.contextMax);
      const head: AnswerHead = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(Date.now() / 1000),
        model: model.upstream,
        promptTokens: prompt.length,
      };
      const parts = loadedModel.generate(prompt, options);
      if (streamed) return { type: "text/event-stream", body: answerEvents(head, parts, wantsUsage, signal) };
      return { type: "application/json", body: await answerWhole(head, parts, signal, worked) };
    };
  }

  return { models, routes: new Map([["/v1/chat/completions", read]]), requestBytesMax: 4 * 1024 * 1024 };
}

function optionsOf(fields: Fields, { temperatureDefault, topPDefault }: ChatBackend): GenerationOptions {
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

function checkNumbers(fields: Fields): RequestError | null {
  return firstError([
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

function checkStop(stop: unknown): RequestError | null {
  if (stop == null) return null;
  const list: readonly unknown[] = Array.isArray(stop) ? stop : [stop];
  const isValid =
    list.length <= stopsMax && list.every((item) => typeof item === "string" && item !== "" && item.length <= stopCharactersMax);
  if (isValid) return null;
  return requestError(400, `\`stop\` must be a string, or up to ${stopsMax} of them, none of them empty.`, {
    param: "stop",
    code: "invalid_value",
  });
}

function checkStream(fields: Fields): RequestError | null {
  const options = fields["stream_options"];
  if (options == null) return checkBoolean(fields, "stream");
  if (typeof options !== "object")
    return requestError(400, "`stream_options` must be an object.", { param: "stream_options", code: "invalid_type" });
  if (fields["stream"] === true) return checkBoolean(options as Fields, "include_usage");
  return requestError(400, "`stream_options` requires `stream: true`.", { param: "stream_options", code: "invalid_value" });
}

/** Parameters that the model cannot honour are rejected, not ignored: the client would believe that they had an effect. */
function checkAbilities(fields: Fields): RequestError | null {
  const wanted: readonly (readonly [param: string, wanted: boolean, message: string])[] = [
    ["tools", isFilled(fields["tools"]), "This model does not support tool calls."],
    ["functions", isFilled(fields["functions"]), "This model does not support function calls."],
    ["tool_choice", isChosen(fields["tool_choice"]), "This model does not support tool calls."],
    ["response_format", wantsForm(fields["response_format"]), "This model writes plain text only and does not support response formats."],
    ["n", fields["n"] != null && fields["n"] !== 1, "This model returns one choice per request."],
    ["logprobs", fields["logprobs"] != null && fields["logprobs"] !== false, "This model does not return log probabilities."],
    ["top_logprobs", isPositive(fields["top_logprobs"]), "This model does not return log probabilities."],
    ["logit_bias", isFilled(fields["logit_bias"]), "This model does not support `logit_bias`."],
    [
      "modalities",
      Array.isArray(fields["modalities"]) && fields["modalities"].some((item) => item !== "text"),
      "This model writes text only.",
    ],
    ["audio", fields["audio"] != null, "This model writes text only."],
    ["prediction", fields["prediction"] != null, "This model does not support predictions."],
    ["web_search_options", fields["web_search_options"] != null, "This model has no access to the web."],
    [
      "reasoning_effort",
      fields["reasoning_effort"] != null && fields["reasoning_effort"] !== "none",
      "This model does not support reasoning.",
    ],
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

function tooLong(model: EmbeddedModel, contextMax: number): RequestError {
  const message = `The prompt is too long: this model's maximum context length is ${contextMax} tokens, prompt and answer together.`;
  return requestError(400, `${model.id}: ${message}`, { param: "messages", code: "context_length_exceeded" });
}
