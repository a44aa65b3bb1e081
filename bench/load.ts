import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask, type Asked, type ChatBehaviour, tokensPerSecond } from "./ask.ts";
import type { ClosedResult, Held, Job, Left, OpenResult, PacedResult, Work } from "./job.ts";
import { bun, type Running, scratch, start } from "./processes.ts";
import type { Target } from "./target.ts";

/** Closed loop: wrk where it is installed and the request is small, since it costs the least, else our own client. */
export async function closedLoop(target: Target, asked: Asked, amount: { connections: number; seconds: number }): Promise<ClosedResult> {
  const job = jobFor(target, asked, { kind: "closed", ...amount });
  const { body } = asked;
  const own = wrkVersion() === null || body.kind !== "json";
  const result = own ? await answerOf<ClosedResult>(startClient(job), amount.seconds) : await wrk(job, body.text, amount);
  if (result.failures > 0) throw new Error(`${target.name} failed ${result.failures} of ${result.requests} requests to ${asked.path}`);
  return result;
}

/** A closed loop in which each request carries the next of these tokens. */
export async function spreadLoop(
  target: Target,
  asked: Asked,
  amount: { tokens: readonly string[]; connections: number; seconds: number },
): Promise<ClosedResult> {
  const { body } = asked;
  if (body.kind !== "json") throw new Error("only a JSON request is asked with many tokens");
  const { tokens, ...load } = amount;
  const job = jobFor(target, asked, { kind: "closed", ...load });
  const own = wrkVersion() === null;
  const result = own
    ? await answerOf<ClosedResult>(startClient(withTokens(job, tokens)), load.seconds)
    : await wrk(job, body.text, load, tokens);
  if (result.failures > 0) throw new Error(`${target.name} failed ${result.failures} of ${result.requests} requests to ${asked.path}`);
  return result;
}

/** With tokens, each request carries the next of them. */
export async function openLoop(
  target: Target,
  asked: Asked,
  amount: { perSecond: number; seconds: number },
  tokens: readonly string[] = [],
): Promise<OpenResult> {
  const job = jobFor(target, asked, { kind: "open", ...amount });
  return answerOf<OpenResult>(startClient(tokens.length === 0 ? job : withTokens(job, tokens)), amount.seconds);
}

/** In a file, because an argument may have 128 KB at most. */
function withTokens(job: Job, tokens: readonly string[]): Job {
  const tokensFile = join(scratch, "tokens.json");
  writeFileSync(tokensFile, JSON.stringify(tokens));
  return { ...job, tokensFile };
}

/** An open loop that counts only if every request of it is answered. */
export async function answeredLoop(target: Target, asked: Asked, amount: { perSecond: number; seconds: number }): Promise<OpenResult> {
  const result = await openLoop(target, asked, amount);
  if (result.statuses["200"] !== result.requests) throw new Error(`of ${result.requests} requests came ${JSON.stringify(result.statuses)}`);
  return result;
}

/** Calls `steady` at the moment the counting begins, and resolves at the moment it ends. */
export async function pacedStreams(target: Target, amount: { streams: number; seconds: number }, steady: () => void): Promise<PacedResult> {
  // A target that does not let go of its upstream when the client leaves is rid of the stream soon after all the same.
  const tokens = (amount.seconds + 8) * tokensPerSecond;
  const client = startClient(jobFor(target, ask("paced", tokens), { kind: "paced", ...amount }));
  await client.event("steady", opensWithinMs);
  steady();
  return answerOf<PacedResult>(client, amount.seconds);
}

export interface Holding {
  readonly held: Held;
  leave(): Promise<Left>;
}

export async function holdStreams(
  target: Target,
  behaviour: ChatBehaviour,
  amount: { streams: number; stalled: boolean },
): Promise<Holding> {
  const client = startClient(jobFor(target, ask(behaviour), { kind: "hold", ...amount }));
  const held = (await client.event("held", opensWithinMs)) as unknown as Held;
  return {
    held,
    leave: async () => {
      client.tell("leave");
      const left = (await client.event("left", 10_000)) as unknown as Left;
      await client.exited;
      return left;
    },
  };
}

export function wrkVersion(): string | null {
  if (Bun.which("wrk") === null) return null;
  const said = Bun.spawnSync(["wrk", "--version"]).stdout.toString();
  return /^wrk (\S+)/.exec(said)?.[1] ?? "unknown";
}

const opensWithinMs = 120_000;

function jobFor(target: Target, asked: Asked, work: Work): Job {
  return { origin: target.origin, headers: target.headers, asked, work };
}

function startClient(job: Job): Running {
  return start({ name: "client", command: [...bun, join(import.meta.dir, "client.ts"), JSON.stringify(job)] });
}

async function answerOf<Result>(client: Running, seconds: number): Promise<Result> {
  const result = await client.event("result", seconds * 1000 + 60_000);
  await client.exited;
  return result as unknown as Result;
}

async function wrk(
  job: Job,
  body: string,
  { connections, seconds }: { connections: number; seconds: number },
  tokens: readonly string[] = [],
): Promise<ClosedResult> {
  // Several may run at once.
  const script = join(scratch, `request-${(scripts += 1)}.lua`);
  writeFileSync(script, wrkScript(job.headers, body) + (tokens.length === 0 ? "" : tokenScript(tokens)));
  const running = start({
    name: "wrk",
    command: ["wrk", "-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "10s", "-s", script, job.origin + job.asked.path],
  });
  return answerOf<ClosedResult>(running, seconds);
}

let scripts = 0;

function wrkScript(headers: Job["headers"], body: string): string {
  const assignments = Object.entries({ "content-type": "application/json", ...headers }).map(
    ([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`,
  );
  return `wrk.method = "POST"
wrk.body = [==[${body}]==]
${assignments.join("\n")}
function done(summary, latency, requests)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"event":"result","requests":%d,"failures":%d,"seconds":%f}\\n', summary.requests, failures, summary.duration / 1e6))
end
`;
}

/** A request is put together once for each token and kept: wrk shares the machine with what it loads. */
function tokenScript(tokens: readonly string[]): string {
  return `
local tokens = { ${tokens.map((token) => JSON.stringify(token)).join(", ")} }
local requests = {}
local at = 0
function request()
  at = at % #tokens + 1
  if requests[at] == nil then
    wrk.headers["authorization"] = "Bearer " .. tokens[at]
    requests[at] = wrk.format()
  end
  return requests[at]
end
`;
}
