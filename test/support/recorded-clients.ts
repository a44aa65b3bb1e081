/**
 * What clients send that cannot run in a test: Cursor, whose servers make the requests, and Open WebUI, which is a container. Written after
 * https://forum.cursor.com/t/159298, https://docs.litellm.ai/docs/tutorials/cursor_integration and
 * https://github.com/archestra-ai/archestra/pull/7375 for the one, and after
 * backend/open_webui/routers (openai.py, audio.py) of https://github.com/open-webui/open-webui for the other.
 */
export interface RecordedRequest {
  readonly name: string;
  readonly method: "GET" | "POST";
  /** After the base URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** The fields of a form, with a recording as its file. */
  readonly form?: Readonly<Record<string, string>>;
}

const model = "your-model";
const stream = { stream: true, stream_options: { include_usage: true } };

const readFile = {
  type: "function",
  function: { name: "read_file", description: "Reads a file.", parameters: { type: "object", properties: { path: { type: "string" } } } },
};

export const cursorRequests: readonly RecordedRequest[] = [
  {
    name: "the check of the key",
    method: "POST",
    path: "/chat/completions",
    body: { model, messages: [{ role: "user", content: "Just say hi." }], max_tokens: 10 },
  },
  {
    name: "a chat",
    method: "POST",
    path: "/chat/completions",
    body: {
      model,
      temperature: 0,
      user: "google-oauth2|user_01",
      messages: [
        { role: "system", content: "You are a coding assistant." },
        { role: "user", content: [{ type: "text", text: "What does a.py print?" }] },
        // An assistant that only called a tool has an empty text.
        {
          role: "assistant",
          content: "",
          tool_calls: [{ id: "call_1", type: "function", function: { name: "read_file", arguments: '{"path":"a.py"}' } }],
        },
        { role: "tool", tool_call_id: "call_1", content: "print(42)" },
        { role: "user", content: "And now?" },
      ],
      tools: [readFile],
      tool_choice: "auto",
      ...stream,
    },
  },
];

/** The tool with which an agent edits files, and a turn that only called one: both are passed on as they are. */
export const cursorAgentRequest: RecordedRequest = {
  name: "a step of an agent",
  method: "POST",
  path: "/chat/completions",
  body: {
    model,
    messages: [
      { role: "user", content: "Fix a.py" },
      {
        role: "assistant",
        content: [],
        tool_calls: [{ id: "call_1", type: "function", function: { name: "read_file", arguments: '{"path":"a.py"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "print(42)" },
    ],
    tools: [
      readFile,
      {
        type: "custom",
        name: "ApplyPatch",
        description: "Edits files.",
        format: { type: "grammar", syntax: "lark", definition: "start: /.+/" },
      },
    ],
    ...stream,
  },
};

/** For models whose names it takes for reasoning models: the body of another API on the path of chat completions. */
export const cursorResponsesRequest: RecordedRequest = {
  name: "a chat with a reasoning model",
  method: "POST",
  path: "/chat/completions",
  body: {
    model,
    input: [{ role: "user", content: [{ type: "input_text", text: "Hello" }] }],
    include: ["reasoning.encrypted_content"],
    reasoning: { effort: "medium", summary: "auto" },
    text: { verbosity: "low" },
    ...stream,
  },
};

/** Where the operator has it forward who is asking (ENABLE_FORWARD_USER_INFO_HEADERS). */
const person = {
  "X-OpenWebUI-User-Name": "Ada",
  "X-OpenWebUI-User-Id": "1",
  "X-OpenWebUI-User-Email": "ada@example.com",
  "X-OpenWebUI-User-Role": "user",
};

export const openWebUiRequests: readonly RecordedRequest[] = [
  { name: "the list of models", method: "GET", path: "/models", headers: person },
  {
    name: "a chat",
    method: "POST",
    path: "/chat/completions",
    headers: { ...person, "X-OpenWebUI-Chat-Id": "chat-1" },
    body: { model, messages: [{ role: "user", content: "Hello" }], ...stream },
  },
  {
    name: "the title of a chat",
    method: "POST",
    path: "/chat/completions",
    body: { model, messages: [{ role: "user", content: "### Task:\nGenerate a title" }], stream: false, max_completion_tokens: 1000 },
  },
  { name: "speech", method: "POST", path: "/audio/speech", headers: person, body: { input: "Hello", voice: "alloy", model } },
  { name: "a recording", method: "POST", path: "/audio/transcriptions", form: { model, language: "en" } },
];
