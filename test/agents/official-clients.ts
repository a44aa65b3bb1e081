/** How the official clients are used, with the few of their types that this takes: they are installed for `npm run test:agents` only. */

export interface Asked {
  readonly url: string;
  readonly key: string;
  readonly model: string;
  readonly prompt: string;
  readonly streamed: boolean;
  /** The tool of the request; null for a request without tools. */
  readonly tool: AskedTool | null;
}

export interface AskedTool {
  readonly name: string;
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
  run(input: Readonly<Record<string, unknown>>): string;
}

export interface OfficialClient {
  readonly name: string;
  readonly packages: readonly string[];
  /** The last text, after the tool was called as often as the model wanted it. */
  ask(asked: Asked): Promise<string>;
}

export function isInstalled({ packages }: OfficialClient): boolean {
  try {
    for (const name of packages) Bun.resolveSync(name, import.meta.dir);
    return true;
  } catch {
    return false;
  }
}

async function load<T>(name: string): Promise<T> {
  return (await import(Bun.resolveSync(name, import.meta.dir))) as T;
}

type Fields = Readonly<Record<string, unknown>>;
const turnsMax = 5;

interface GenAi {
  readonly GoogleGenAI: new (options: { readonly apiKey: string; readonly httpOptions: { readonly baseUrl: string } }) => {
    readonly models: {
      generateContent(request: Fields): Promise<Generated>;
      generateContentStream(request: Fields): Promise<AsyncIterable<Generated>>;
    };
  };
}

interface Generated {
  readonly candidates?: readonly { readonly content?: { readonly parts?: readonly GeneratedPart[] } }[];
}

interface GeneratedPart {
  readonly text?: string;
  readonly thought?: boolean;
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: Fields };
}

const genAi: OfficialClient = {
  name: "@google/genai",
  packages: ["@google/genai"],
  ask: async ({ url, key, model, prompt, streamed, tool }) => {
    const { GoogleGenAI } = await load<GenAi>("@google/genai");
    const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
    const contents: Fields[] = [{ role: "user", parts: [{ text: prompt }] }];
    const declarations = tool === null ? [] : [{ name: tool.name, description: tool.description, parametersJsonSchema: tool.schema }];
    const config = tool === null ? {} : { tools: [{ functionDeclarations: declarations }] };
    for (let turn = 0; turn < turnsMax; turn++) {
      const parts: GeneratedPart[] = [];
      const add = ({ candidates }: Generated): void => void parts.push(...(candidates?.[0]?.content?.parts ?? []));
      if (streamed) for await (const chunk of await models.generateContentStream({ model, contents, config })) add(chunk);
      else add(await models.generateContent({ model, contents, config }));
      const results = parts.flatMap(({ functionCall: call }) => {
        if (call === undefined || tool === null) return [];
        return [{ functionResponse: { id: call.id, name: call.name, response: { output: tool.run(call.args) } } }];
      });
      if (results.length === 0) return parts.map(({ text, thought }) => (thought === true ? "" : (text ?? ""))).join("");
      contents.push({ role: "model", parts }, { role: "user", parts: results });
    }
    throw new Error("the model calls its tool again and again");
  },
};

interface AgentsSdk {
  readonly Agent: new (options: Fields) => object;
  readonly Runner: new (options: Fields) => { run(agent: object, prompt: string, options: Fields): Promise<AgentRun> };
  readonly OpenAIProvider: new (options: Fields) => object;
  readonly tool: (options: Fields) => object;
}

interface AgentRun {
  readonly finalOutput?: unknown;
  readonly completed?: Promise<void>;
}

function agentsSdk(api: string, useResponses: boolean): OfficialClient {
  return {
    name: `@openai/agents with ${api}`,
    packages: ["@openai/agents"],
    ask: async ({ url, key, model, prompt, streamed, tool }) => {
      const { Agent, OpenAIProvider, Runner, tool: define } = await load<AgentsSdk>("@openai/agents");
      const modelProvider = new OpenAIProvider({ apiKey: key, baseURL: `${url}/v1`, useResponses });
      const runner = new Runner({ modelProvider, tracingDisabled: true });
      const defined = (each: AskedTool): object =>
        define({
          name: each.name,
          description: each.description,
          parameters: each.schema,
          strict: false,
          execute: async (input: Fields) => each.run(input),
        });
      const agent = new Agent({
        name: "Weather",
        instructions: "Be brief.",
        model,
        tools: [tool].flatMap((each) => (each === null ? [] : [defined(each)])),
      });
      const result = await runner.run(agent, prompt, { stream: streamed, maxTurns: turnsMax });
      await result.completed;
      return String(result.finalOutput);
    },
  };
}

interface AiSdk {
  readonly generateText: (options: Fields) => Promise<{ readonly text: string }>;
  readonly streamText: (options: Fields) => { readonly text: Promise<string> };
  readonly stepCountIs: (count: number) => unknown;
  readonly jsonSchema: (schema: Fields) => unknown;
  readonly tool: (options: Fields) => unknown;
}

type ModelMaker = (options: { readonly apiKey: string; readonly baseURL: string }) => (model: string) => unknown;

/** Each provider's default API, as a user gets it who calls `provider("model")`. */
function aiSdk(name: string, maker: string, base: string): OfficialClient {
  return {
    name,
    packages: ["ai", name],
    ask: async ({ url, key, model, prompt, streamed, tool }) => {
      const { generateText, jsonSchema, stepCountIs, streamText, tool: define } = await load<AiSdk>("ai");
      const make = (await load<Readonly<Record<string, ModelMaker>>>(name))[maker];
      if (make === undefined) throw new Error(`${name} has no ${maker}`);
      const defined = (each: AskedTool): unknown =>
        define({
          description: each.description,
          inputSchema: jsonSchema(each.schema),
          execute: async (input: Fields) => each.run(input),
        });
      const options = {
        model: make({ apiKey: key, baseURL: url + base })(model),
        prompt,
        maxRetries: 0,
        stopWhen: stepCountIs(turnsMax),
        ...(tool === null ? undefined : { tools: { [tool.name]: defined(tool) } }),
      };
      return streamed ? streamText(options).text : (await generateText(options)).text;
    },
  };
}

interface LangChainMessage {
  readonly text: string;
  readonly tool_calls?: readonly { readonly id?: string; readonly name: string; readonly args: Fields }[];
  concat(next: LangChainMessage): LangChainMessage;
}

interface LangChainModel {
  bindTools(tools: readonly Fields[]): LangChainModel;
  invoke(messages: readonly unknown[]): Promise<LangChainMessage>;
  stream(messages: readonly unknown[]): Promise<AsyncIterable<LangChainMessage>>;
}

const langChain: OfficialClient = {
  name: "ChatAnthropic of @langchain/anthropic",
  packages: ["@langchain/anthropic", "@langchain/core/messages"],
  ask: async ({ url, key, model, prompt, streamed, tool }) => {
    const { ChatAnthropic } = await load<{ ChatAnthropic: new (options: Fields) => LangChainModel }>("@langchain/anthropic");
    const chat = new ChatAnthropic({ model, apiKey: key, anthropicApiUrl: url, maxRetries: 0 });
    const declared = tool === null ? null : { name: tool.name, description: tool.description, input_schema: tool.schema };
    const bound = declared === null ? chat : chat.bindTools([declared]);
    const messages: unknown[] = [{ role: "user", content: prompt }];
    for (let turn = 0; turn < turnsMax; turn++) {
      const answer = streamed ? await gathered(await bound.stream(messages)) : await bound.invoke(messages);
      const calls = tool === null ? [] : (answer.tool_calls ?? []);
      if (calls.length === 0) return answer.text;
      const results = calls.map(({ id, args }) => ({ role: "tool", tool_call_id: id, content: tool?.run(args) }));
      messages.push(answer, ...results);
    }
    throw new Error("the model calls its tool again and again");
  },
};

async function gathered(chunks: AsyncIterable<LangChainMessage>): Promise<LangChainMessage> {
  let whole: LangChainMessage | null = null;
  for await (const chunk of chunks) whole = whole === null ? chunk : whole.concat(chunk);
  if (whole === null) throw new Error("the stream was empty");
  return whole;
}

export const officialClients: readonly OfficialClient[] = [
  genAi,
  agentsSdk("the Responses API", true),
  agentsSdk("chat completions", false),
  aiSdk("@ai-sdk/openai", "createOpenAI", "/v1"),
  aiSdk("@ai-sdk/anthropic", "createAnthropic", "/v1"),
  aiSdk("@ai-sdk/google", "createGoogleGenerativeAI", "/v1beta"),
  langChain,
];
