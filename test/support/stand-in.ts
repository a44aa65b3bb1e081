import { readFileSync } from "node:fs";

/**
 * The least that can pass for the product: one channel, no judgement. It lets the test support be tested by itself,
 * and commits one sin on demand (`STAND_IN_SIN`), so that each invariant is seen to fail.
 */
async function relay(request: Request): Promise<Response> {
  const id = `req-${(requests += 1)}`;
  const body = await request.text();
  if (sin === "die") process.exit(3);
  if (sin === "insist") for (let extra = 0; extra < 3; extra += 1) await forward(body);
  if (sin === "leak") for (let extra = 0; extra < 3; extra += 1) void forward(hanging).catch(() => {});
  const first = await forward(body);
  if (sin === "dawdle") await Bun.sleep(Number(process.env["STAND_IN_DAWDLES_MS"]));
  const answer = sin === "mix" ? mixed(first, await forward(body)) : first;
  for (let lines = linesFor[sin] ?? 1; lines > 0; lines -= 1) log("call", { id, attempts: 1 });
  if (sin === "tell") log("note", { key: request.headers.get("authorization") });
  return new Response(sin === "shorten" ? answer.replace(/ \w+:\d+"/, '"') : answer, {
    headers: { "content-type": "application/json", "x-request-id": id },
  });
}

const sin = process.env["STAND_IN_SIN"] ?? "";
const [, , , , file = ""] = process.argv;
const config = JSON.parse(readFileSync(file, "utf8")) as { channels: [{ base_url: string }] };
const linesFor: Readonly<Record<string, number>> = { forget: 0, repeat: 2 };
const hanging = '{"model":"fault:silent"}';
let requests = 0;

const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: relay });
process.on("SIGTERM", () => process.exit(0));
console.log("a line for people");
log("listening", { url: `http://127.0.0.1:${server.port}` });

async function forward(body: string): Promise<string> {
  const url = `${config.channels[0].base_url}/chat/completions`;
  return (await fetch(url, { method: "POST", body })).text();
}

/** The beginning of one answer and the end of the other. */
function mixed(first: string, second: string): string {
  const words = (answer: string) => /"content":"([^"]+)"/.exec(answer)?.[1]?.split(" ") ?? [];
  const content = [...words(first).slice(0, 2), ...words(second).slice(2)].join(" ");
  return first.replace(/"content":"[^"]+"/, `"content":"${content}"`);
}

function log(event: string, fields: Readonly<Record<string, unknown>>): void {
  console.log(JSON.stringify({ event, ...fields }));
}
