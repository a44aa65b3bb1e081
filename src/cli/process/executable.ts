/** Whether the gateway is one executable file (scripts/build/executable.ts), which holds its source, and not the runtime with a script. */
export const isExecutable: boolean = Bun.main.startsWith("/$bunfs/");

/** The command that starts this program again, without its arguments. */
export function ownProgram(): readonly string[] {
  return isExecutable ? [process.execPath] : [process.execPath, ...process.execArgv, ...process.argv.slice(1, 2)];
}

/**
 * Some settings of the runtime are read from the environment in which it starts. The launcher `bin/bun` sets them; an executable has none,
 * so it starts itself once more, as the same process.
 */
export function withRuntimeSettings(env: Readonly<Record<string, string | undefined>>): void {
  const missing = Object.entries(runtimeSettings).filter(([name]) => env[name] === undefined);
  if (!isExecutable || missing.length === 0 || process.execve === undefined) return;
  const known = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  process.execve(process.execPath, [process.argv0, ...process.argv.slice(2)], Object.fromEntries([...known, ...missing]));
}

/** Why these: see `bin/bun`. */
export const runtimeSettings = { BUN_CONFIG_MAX_HTTP_REQUESTS: "20000", UV_THREADPOOL_SIZE: "64" };
