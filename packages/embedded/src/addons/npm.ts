import { problem, type AddProblem } from "./progress.ts";

/** The npm of the user, which knows their registry, proxy and credentials. */
export interface Npm {
  /** Returns stdout, or the problem. */
  run(args: readonly string[], options: { readonly timeoutMs: number; readonly signal: AbortSignal }): Promise<string | AddProblem>;
}

export function findNpm(env: Readonly<Record<string, string | undefined>>): Npm | AddProblem {
  const path = Bun.which("npm", { PATH: env["PATH"] ?? "" });
  if (path === null) {
    return problem(
      "no_npm",
      "npm was not found on the PATH. It is needed to download models, and comes with Node.js (https://nodejs.org).",
    );
  }
  return {
    async run(args, { timeoutMs, signal }) {
      const stopped = problem("interrupted", "npm was stopped.");
      // With a signal that is already aborted, `spawn` would throw.
      if (signal.aborted) return stopped;
      const timeout = AbortSignal.timeout(timeoutMs);
      const child = Bun.spawn([path, ...args], {
        env: { ...env, npm_config_update_notifier: "false", npm_config_progress: "false" },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        signal: AbortSignal.any([signal, timeout]),
      });
      const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), child.exited]);
      if (signal.aborted) return stopped;
      if (timeout.aborted) return problem("unavailable", `npm ${args[0]} did not finish within ${timeoutMs / 1000} seconds.`);
      return code === 0 ? output : explain(args, output, errors);
    },
  };
}

/** Far more than npm prints. */
const outputCharactersMax = 1024 * 1024;

async function text(stream: ReadableStream<Uint8Array>): Promise<string> {
  let output = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) if (output.length < outputCharactersMax) output += decoder.decode(chunk, { stream: true });
  return output;
}

/** Explains npm's error code. npm's own message is included, because it may name a host or a setting of the user. */
function explain(args: readonly string[], output: string, errors: string): AddProblem {
  const spec = args[1] ?? "";
  const code = /"code":\s*"([A-Z0-9_]+)"/.exec(output)?.[1] ?? /^npm (?:error|ERR!) code (\S+)/m.exec(errors)?.[1] ?? "";
  const own = /"summary":\s*("(?:[^"\\]|\\.)*")/.exec(output)?.[1];
  const summary = own === undefined ? (/^npm (?:error|ERR!) (?!code )(.+)/m.exec(errors)?.[1] ?? "") : unquoted(own);
  const npmSays = `npm says: ${[code, summary.slice(0, 500)].filter((part) => part !== "").join(": ") || "nothing"}`;
  if (code === "E404" || code === "ETARGET") return problem("unavailable", `The registry has no ${spec}. (${npmSays})`);
  if (code === "E401" || code === "E403" || code === "ENEEDAUTH") {
    return problem("unavailable", `The registry denied access to ${spec}: check your npm login. (${npmSays})`);
  }
  if (offline.has(code)) {
    return problem(
      "unavailable",
      `The registry cannot be reached, so ${spec} cannot be downloaded: check the network and npm's settings. (${npmSays})`,
    );
  }
  return problem("unavailable", `npm could not download ${spec}. (${npmSays})`);
}

const offline: ReadonlySet<string> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ECONNRESET",
  "ETIMEDOUT",
  "ERR_SOCKET_TIMEOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTCACHED",
]);

function unquoted(json: string): string {
  try {
    return String(JSON.parse(json)).replaceAll(/\s+/g, " ").trim();
  } catch {
    return "";
  }
}
