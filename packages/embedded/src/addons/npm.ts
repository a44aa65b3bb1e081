import { problem, type AddProblem } from "./problem.ts";

/** The user's own npm: it knows their registry, their proxy and their credentials, which are no business of ours. */
export interface Npm {
  /** Standard output, or why there is none. */
  run(words: readonly string[], options: { readonly timeoutMs: number; readonly signal: AbortSignal }): Promise<string | AddProblem>;
}

export function findNpm(env: Readonly<Record<string, string | undefined>>): Npm | AddProblem {
  const path = Bun.which("npm", { PATH: env["PATH"] ?? "" });
  if (path === null) {
    return problem("no_npm", "npm is not on the PATH. Models are fetched with it; it comes with Node.js (https://nodejs.org).");
  }
  return {
    async run(words, { timeoutMs, signal }) {
      const stopped = problem("interrupted", "npm was stopped.");
      // A signal that has come already would be thrown, not heeded.
      if (signal.aborted) return stopped;
      const timeout = AbortSignal.timeout(timeoutMs);
      const child = Bun.spawn([path, ...words], {
        env: { ...env, npm_config_update_notifier: "false", npm_config_progress: "false" },
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        signal: AbortSignal.any([signal, timeout]),
      });
      const [said, cried, code] = await Promise.all([text(child.stdout), text(child.stderr), child.exited]);
      if (signal.aborted) return stopped;
      if (timeout.aborted) return problem("unavailable", `npm ${words[0]} did not end within ${timeoutMs / 1000} seconds.`);
      return code === 0 ? said : explain(words, said, cried);
    },
  };
}

/** Far more than npm has to say. */
const outputCharactersMax = 1024 * 1024;

async function text(stream: ReadableStream<Uint8Array>): Promise<string> {
  let said = "";
  const decoder = new TextDecoder();
  for await (const chunk of stream) if (said.length < outputCharactersMax) said += decoder.decode(chunk, { stream: true });
  return said;
}

/** Puts npm's own error code into words. Its words for it are kept: they may name a host or a setting of the user's. */
function explain(words: readonly string[], said: string, cried: string): AddProblem {
  const wanted = words[1] ?? "";
  const code = /"code":\s*"([A-Z0-9_]+)"/.exec(said)?.[1] ?? /^npm (?:error|ERR!) code (\S+)/m.exec(cried)?.[1] ?? "";
  const own = /"summary":\s*("(?:[^"\\]|\\.)*")/.exec(said)?.[1];
  const summary = own === undefined ? (/^npm (?:error|ERR!) (?!code )(.+)/m.exec(cried)?.[1] ?? "") : unquoted(own);
  const told = `npm says: ${[code, summary.slice(0, 500)].filter((part) => part !== "").join(": ") || "nothing"}`;
  if (code === "E404" || code === "ETARGET") return problem("unavailable", `The registry has no ${wanted}. (${told})`);
  if (code === "E401" || code === "E403" || code === "ENEEDAUTH") {
    return problem("unavailable", `The registry does not give out ${wanted}: see to your npm login. (${told})`);
  }
  if (offline.has(code)) {
    return problem(
      "unavailable",
      `The registry cannot be reached, so ${wanted} is not to be had: check the network and npm's settings. (${told})`,
    );
  }
  return problem("unavailable", `npm could not get ${wanted}. (${told})`);
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
