import type { Environment } from "./interpolate.ts";

/**
 * The environment of a configuration, with the contents of secret files: where the text has `${NAME}` and only `NAME_FILE` is set, NAME is
 * what that file contains. Containers and systemd give secrets to a process as files, because variables can be read from outside.
 */
export function withSecretFiles(text: string, environment: Environment, readSecretFile: (path: string) => string | null): Environment {
  const added: Record<string, string> = {};
  const names = new Set([...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)/g)].map(([, name = ""]) => name));
  for (const name of names) {
    if ((valueOf(environment, name) ?? "") !== "") continue;
    const path = valueOf(environment, `${name}_FILE`) ?? "";
    const contents = path === "" ? null : readSecretFile(path);
    // As in a shell's `$(cat file)`, the line ends at its end are not part of it.
    if (contents !== null) added[name] = contents.replace(/[\r\n]+$/, "");
  }
  return { ...environment, ...added };
}

function valueOf(environment: Environment, name: string): string | undefined {
  return Object.hasOwn(environment, name) ? environment[name] : undefined;
}
