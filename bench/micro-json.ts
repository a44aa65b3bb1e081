import { scanJson } from "../src/operations/json.ts";

/** What it takes to scan a body, beside what it would take to decode and parse it. Best of several rounds. */
const sentence = "Rivers carry meltwater, silt and stories from the mountains to the sea. ";
const paragraph = `${sentence.repeat(3)}\n"And then?" she asked.\n`;
const cases: readonly { readonly name: string; readonly body: unknown }[] = [
  { name: "chat 0.3 KB", body: chat(sentence) },
  { name: "chat 1 KB", body: chat(paragraph.repeat(3) + sentence.repeat(2)) },
  { name: "chat 4 KB", body: chat(paragraph.repeat(15)) },
  { name: "chat 4 KB, Cyrillic", body: chat("Реки несут талую воду и песок с гор к морю. ".repeat(47)) },
  { name: "tools 4 KB", body: { ...chat(sentence), tools: Array.from({ length: 9 }, tool) } },
  { name: "text 1 MB", body: chat(paragraph.repeat(4_060)) },
  {
    name: "image 20 MB",
    body: chat([{ type: "image_url", image_url: { url: `data:image/png;base64,${"iVBORw0K".repeat(2_621_440)}` } }]),
  },
];

console.log(`${"".padEnd(20)}${"bytes".padStart(10)}${"scanJson ns".padStart(14)}${"JSON.parse ns".padStart(15)}`);
for (const { name, body } of cases) {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const scan = nsPerCall(bytes.length, () => scanJson(bytes).ok);
  const parse = nsPerCall(bytes.length, () => JSON.parse(decoder.decode(bytes)) !== null);
  const figures = [String(bytes.length).padStart(10), scan.toFixed(0).padStart(14), parse.toFixed(0).padStart(15)];
  console.log(name.padEnd(20) + figures.join(""));
}

const hostile: readonly { readonly name: string; readonly body: Uint8Array }[] = [
  { name: "10 MB of [", body: new Uint8Array(10_000_000).fill(0x5b) },
  { name: "4 MB of {},", body: encoded(`[${"{},".repeat(1_333_333)}`) },
  {
    name: "1,000,000 keys",
    body: encoded(`{${Array.from({ length: 1_000_000 }, (_, index) => `"${index}":0`).join()}}`),
  },
  { name: "64 MiB of \\n", body: encoded(`"${"\\n".repeat(33_554_431)}"`) },
  { name: "64 MiB of white space", body: encoded(" ".repeat(67_108_864)) },
  { name: "64 MiB of digits", body: encoded("7".repeat(67_108_864)) },
  { name: "64 MiB of 3-byte characters", body: encoded(`"${"河".repeat(22_369_620)}"`) },
];

console.log(`\n${"".padEnd(32)}${"first ms".padStart(10)}${"best ms".padStart(10)}`);
for (const { name, body } of hostile) {
  const took = Array.from({ length: 5 }, () => elapsedMs(() => scanJson(body)));
  const figures = [took[0]!, Math.min(...took)].map((ms) => ms.toFixed(3).padStart(10));
  console.log(name.padEnd(32) + figures.join(""));
}

function chat(content: unknown): object {
  return {
    model: "gpt-4o-mini",
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content },
    ],
    temperature: 0.7,
    max_tokens: 512,
    stream: true,
    stream_options: { include_usage: true },
  };
}

function tool(_: unknown, index: number): object {
  const properties = {
    city: { type: "string", description: "The city" },
    unit: { type: "string", enum: ["celsius", "fahrenheit"] },
  };
  const parameters = { type: "object", properties, required: ["city"], additionalProperties: false };
  return {
    type: "function",
    function: { name: `get_weather_${index}`, description: "The weather in a city", strict: true, parameters },
  };
}

function nsPerCall(bytes: number, call: () => boolean): number {
  const calls = Math.max(1, Math.min(100_000, Math.floor(50_000_000 / bytes)));
  const rounds = Array.from({ length: 12 }, () =>
    elapsedMs(() => {
      for (let done = 0; done < calls; done++) if (!call()) throw new Error("the body was refused");
    }),
  );
  return (Math.min(...rounds) / calls) * 1e6;
}

function elapsedMs(work: () => unknown): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
