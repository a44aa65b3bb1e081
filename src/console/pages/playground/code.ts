/** A program that makes the same request. The key stays out of it: each takes it from the variable `KEY`. */
export interface RequestCode {
  readonly language: "curl" | "Python" | "JavaScript" | "AI SDK";
  readonly text: string;
}

type JsonFields = Readonly<Record<string, unknown>>;

export function chatCode(address: string, request: JsonFields): readonly RequestCode[] {
  const python = [
    pythonClient(address),
    `stream = client.chat.completions.create(${pythonArguments(request)})`,
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ];
  const javaScript = [
    scriptClient(address),
    `const stream = await client.chat.completions.create(${literal(request, script)});`,
    'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");',
  ];
  return [
    { language: "curl", text: curlFor(address, "/v1/chat/completions", request) },
    { language: "Python", text: python.join("\n") },
    { language: "JavaScript", text: javaScript.join("\n") },
    ...aiSdkChat(address, request),
  ];
}

export function speechCode(address: string, request: JsonFields): readonly RequestCode[] {
  const { model, input, voice, response_format: format } = request;
  const file = `speech.${String(format)}`;
  const python = [
    pythonClient(address),
    `with client.audio.speech.with_streaming_response.create(${pythonArguments(request)}) as response:`,
    `    response.stream_to_file(${literal(file, pythonic)})`,
  ];
  const javaScript = [
    'import { writeFile } from "node:fs/promises";',
    scriptClient(address),
    `const speech = await client.audio.speech.create(${literal(request, script)});`,
    `await writeFile(${literal(file, script)}, Buffer.from(await speech.arrayBuffer()));`,
  ];
  const aiSdk = [
    'import { writeFile } from "node:fs/promises";',
    aiSdkClient(address, "generateSpeech"),
    "const { audio } = await generateSpeech({",
    `  model: sluice.speech(${literal(model, script)}),`,
    `  text: ${literal(input, script)},`,
    `  voice: ${literal(voice, script)},`,
    `  outputFormat: ${literal(format, script)},`,
    "});",
    `await writeFile(${literal(file, script)}, audio.uint8Array);`,
  ];
  return [
    { language: "curl", text: `${curlFor(address, "/v1/audio/speech", request)} \\\n  --output ${shellWord(file)}` },
    { language: "Python", text: python.join("\n") },
    { language: "JavaScript", text: javaScript.join("\n") },
    { language: "AI SDK", text: aiSdk.join("\n") },
  ];
}

export function transcriptionCode(address: string, fileName: string, fields: Readonly<Record<string, string>>): readonly RequestCode[] {
  const { model, language, response_format: format = "json" } = fields;
  const isJson = format.endsWith("json");
  const python = [
    pythonClient(address),
    `with open(${literal(fileName, pythonic)}, "rb") as file:`,
    `    transcript = client.audio.transcriptions.create(${indented(`file=file,\n${pythonFields(fields)}`, "        ")}    )`,
    `print(${isJson ? "transcript.text" : "transcript"})`,
  ];
  const javaScript = [
    'import { createReadStream } from "node:fs";',
    scriptClient(address),
    "const transcript = await client.audio.transcriptions.create({",
    `  file: createReadStream(${literal(fileName, script)}),`,
    ...Object.entries(fields).map(([name, value]) => `  ${name}: ${literal(value, script)},`),
    "});",
    `console.log(${isJson ? "transcript.text" : "transcript"});`,
  ];
  const aiSdk = [
    'import { readFile } from "node:fs/promises";',
    aiSdkClient(address, "transcribe"),
    "const { text } = await transcribe({",
    `  model: sluice.transcription(${literal(model, script)}),`,
    `  audio: await readFile(${literal(fileName, script)}),`,
    ...(language === undefined ? [] : [`  providerOptions: { openai: { language: ${literal(language, script)} } },`]),
    "});",
    "console.log(text);",
  ];
  return [
    { language: "curl", text: curlForUpload(address, "/v1/audio/transcriptions", fileName, fields) },
    { language: "Python", text: python.join("\n") },
    { language: "JavaScript", text: javaScript.join("\n") },
    // It gives a text and its segments, and no subtitles.
    ...(format === "srt" || format === "vtt" ? [] : [{ language: "AI SDK" as const, text: aiSdk.join("\n") }]),
  ];
}

/** The AI SDK has tools, schemas and images of its own kind: only a chat of texts is the same request there. */
function aiSdkChat(address: string, { model, messages, tools, response_format }: JsonFields): readonly RequestCode[] {
  const turns = messages as readonly { readonly role: string; readonly content: unknown }[];
  if (tools !== undefined || response_format !== undefined || turns.some(({ content }) => typeof content !== "string")) return [];
  const said = (role: string): unknown => turns.find((turn) => turn.role === role)?.content;
  const text = [
    'import { createOpenAICompatible } from "@ai-sdk/openai-compatible";',
    'import { streamText } from "ai";',
    "",
    `const sluice = createOpenAICompatible({ name: "sluice", baseURL: ${literal(`${address}/v1`, script)}, apiKey: process.env.KEY });`,
    "",
    "const { textStream } = streamText({",
    `  model: sluice(${literal(model, script)}),`,
    ...(said("system") === undefined ? [] : [`  instructions: ${literal(said("system"), script)},`]),
    `  prompt: ${literal(said("user"), script)},`,
    "});",
    "for await (const text of textStream) process.stdout.write(text);",
  ];
  return [{ language: "AI SDK", text: text.join("\n") }];
}

function pythonClient(address: string): string {
  const url = literal(`${address}/v1`, pythonic);
  return `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${url}, api_key=os.environ["KEY"])\n`;
}

function scriptClient(address: string): string {
  const url = literal(`${address}/v1`, script);
  return `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${url}, apiKey: process.env.KEY });\n`;
}

function aiSdkClient(address: string, verb: string): string {
  const url = literal(`${address}/v1`, script);
  return [
    'import { createOpenAI } from "@ai-sdk/openai";',
    `import { ${verb} } from "ai";`,
    "",
    `const sluice = createOpenAI({ baseURL: ${url}, apiKey: process.env.KEY });\n`,
  ].join("\n");
}

function pythonArguments(request: JsonFields): string {
  return indented(pythonFields(request), "    ");
}

function pythonFields(request: JsonFields): string {
  return Object.entries(request)
    .map(([name, value]) => `${name}=${literal(value, pythonic)},`)
    .join("\n");
}

function indented(text: string, by: string): string {
  return `\n${text.replaceAll(/^/gm, by)}\n`;
}

interface LiteralStyle {
  readonly words: Readonly<Record<"true" | "false" | "null", string>>;
  readonly member: (name: string) => string;
}

const pythonic: LiteralStyle = { words: { true: "True", false: "False", null: "None" }, member: (name) => JSON.stringify(name) };
const script: LiteralStyle = {
  words: { true: "true", false: "false", null: "null" },
  member: (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name)),
};

/** A value of JSON as a literal: the strings and numbers of JSON are those of both languages. */
function literal(value: unknown, style: LiteralStyle, indent = ""): string {
  const inner = `${indent}${style === pythonic ? "    " : "  "}`;
  const block = (open: string, lines: readonly string[], close: string): string =>
    lines.length === 0 ? open + close : `${open}\n${lines.map((line) => `${inner}${line},\n`).join("")}${indent}${close}`;
  if (value === true || value === false || value === null || value === undefined) return style.words[`${value ?? null}`];
  if (Array.isArray(value)) {
    return block(
      "[",
      value.map((item) => literal(item, style, inner)),
      "]",
    );
  }
  if (typeof value !== "object") return JSON.stringify(value);
  return block(
    "{",
    Object.entries(value).map(([name, member]) => `${style.member(name)}: ${literal(member, style, inner)}`),
    "}",
  );
}

function curlFor(address: string, path: string, body: unknown): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return [
    `curl ${address}${path} \\`,
    '  -H "Authorization: Bearer $KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${json}'`,
  ].join("\n");
}

function curlForUpload(address: string, path: string, fileName: string, fields: Readonly<Record<string, string>>): string {
  const parts = Object.entries(fields).map(([name, value]) => `  -F ${name}=${shellWord(value)}`);
  return [
    `curl ${address}${path} \\`,
    '  -H "Authorization: Bearer $KEY" \\',
    ...parts.map((part) => `${part} \\`),
    `  -F file=@${shellWord(fileName)}`,
  ].join("\n");
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
