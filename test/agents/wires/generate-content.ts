import {
  declared,
  list,
  object,
  serverSentEvents,
  signature,
  thought as scriptedThought,
  type Json,
  type ScriptedRequest,
  type ScriptedTurn,
  type ScriptedWire,
} from "./wire.ts";

export const generateContentWire: ScriptedWire = {
  channel: { dialect: "gemini", auth_header: "x-goog-api-key" },
  contentType: serverSentEvents,
  read,
  whole: (turn, { model }) => generated(partsOf(turn), model, "STOP"),
  events: (turn, { model }) =>
    [...partsOf(turn).map((part) => generated([part], model)), generated([{ text: "" }], model, "STOP")].map(
      (chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`,
    ),
};

function partsOf({ thought, text, call }: ScriptedTurn): readonly Json[] {
  return [
    ...(thought === "" ? [] : [{ text: thought, thought: true }]),
    { text },
    ...(call === null ? [] : [{ functionCall: { id: call.id, name: call.name, args: call.arguments }, thoughtSignature: signature }]),
  ];
}

function generated(parts: readonly Json[], model: string, finishReason?: string): Json {
  const usageMetadata = { promptTokenCount: 1_000, candidatesTokenCount: 20, totalTokenCount: 1_020 };
  return {
    candidates: [{ index: 0, content: { role: "model", parts }, ...(finishReason === undefined ? undefined : { finishReason }) }],
    usageMetadata,
    modelVersion: model,
    responseId: "scripted",
  };
}

function read(body: Json, path: string): ScriptedRequest {
  const contents = list(body["contents"]);
  const parts = (role: string): readonly (readonly Json[])[] =>
    contents.filter((each) => each["role"] === role).map((each) => list(each["parts"]));
  const functions = list(body["tools"]).flatMap(({ functionDeclarations }) => list(functionDeclarations));
  return {
    model: /models\/([^:]+):/.exec(path)?.[1] ?? "",
    stream: path.includes(":streamGenerateContent"),
    tools: functions.map(({ name, description, parametersJsonSchema, parameters }) =>
      declared(name, description, parametersJsonSchema ?? parameters),
    ),
    results: parts("user")
      .flat()
      .filter(({ functionResponse }) => functionResponse !== undefined)
      .map(({ functionResponse }) => JSON.stringify(object(functionResponse)["response"])),
    // Thoughts are not returned in this API, only their signatures, on the calls that they led to.
    thoughts: parts("model").map((each) => {
      const called = each.find(({ functionCall: call }) => call !== undefined);
      return called?.["thoughtSignature"] === signature ? scriptedThought : undefined;
    }),
  };
}
