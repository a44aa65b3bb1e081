import { root } from "./source-tree.ts";

export interface Finished {
  readonly code: number;
  readonly text: string;
}

export interface Installed extends Finished {
  /** What npm warned of, except of what somebody has set for all projects on this machine: that is not ours. */
  readonly warnings: readonly string[];
  /** The registry cannot be reached, so that nothing can be said. */
  readonly isCutOff: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

const minutesMax = 10;

/** Puts the last commit into a folder, as a newcomer's clone has it; false if this is not a clone with git. */
export async function clonedInto(folder: string): Promise<boolean> {
  return (await run(["sh", "-c", 'git -C "$0" archive HEAD | tar -x -C "$1"', root, folder], root)).code === 0;
}

/** Runs `npm install` with this npm. */
export async function installed(
  npm: readonly string[],
  folder: string,
  packages: readonly string[] = [],
  env?: Environment,
): Promise<Installed> {
  const { code, text } = await run([...npm, "install", "--no-audit", "--no-fund", ...packages], folder, env);
  const isCutOff =
    code !== 0 && /\b(ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)\b/.test(text);
  const warnings = text.split("\n").filter((line) => /^npm warn (?!Unknown (user|global|env|builtin) config)/i.test(line));
  return { code, text, warnings, isCutOff };
}

export async function run(command: readonly string[], cwd: string, env: Environment = process.env): Promise<Finished> {
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: minutesMax * 60_000,
  });
  const texts = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, text: texts.join("\n") };
}

export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

export function leave(exitCode: number, message: string): never {
  console.log(message);
  process.exit(exitCode);
}

/** Said where the last commit cannot be had. */
export const noClone = "this is not a clone with git, so that nothing can be installed from its last commit";
export const noRegistry = "the npm registry cannot be reached";
