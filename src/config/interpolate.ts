export type Environment = Readonly<Record<string, string | undefined>>;

export interface InterpolationError {
  readonly reason: string;
  readonly fix: string;
}

/**
 * Replaces `${NAME}` and `${NAME:-default}` by values from the environment; `$${` stands for a literal `${`, and `${$}` for a `$`
 * that would be mistaken for the beginning of a variable. Values are not interpolated again, so one that happens to contain `${` stays
 * as it is.
 */
export function interpolate(text: string, environment: Environment): string | InterpolationError {
  const bare = bareVariable(text, environment);
  if (bare !== null) return braceless(bare, text);
  let result = "";
  let at = 0;
  for (;;) {
    const open = text.indexOf("${", at);
    if (open === -1) return result + text.slice(at);
    if (open > at && text[open - 1] === "$") {
      result += `${text.slice(at, open - 1)}\${`;
      at = open + 2;
      continue;
    }
    const close = text.indexOf("}", open);
    if (close === -1) return unclosed;
    const inner = text.slice(open + 2, close);
    if (inner === "$") {
      result += `${text.slice(at, open)}$`;
      at = close + 1;
      continue;
    }
    const split = inner.indexOf(":-");
    const name = split === -1 ? inner : inner.slice(0, split);
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return badName;
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
    // As in a shell, the default also replaces an empty variable.
    if (split !== -1 && (value === undefined || value === "")) result += text.slice(at, open) + inner.slice(split + 2);
    else if (value === undefined) return missing(name, environment);
    else result += text.slice(at, open) + value;
    at = close + 1;
  }
}

/** The variables that a text refers to. */
export function variableNames(text: string): readonly string[] {
  return [...text.matchAll(/(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}/g)].map(([, name]) => name ?? "");
}

/**
 * Finds a variable that is written as in a shell, `$NAME`, and would therefore be used literally. If the text is nothing else, except
 * perhaps the name of an authentication scheme, a variable must be meant. Inside a longer text a dollar sign may be part of a password,
 * so it counts only if such a variable is set.
 */
function bareVariable(text: string, environment: Environment): string | null {
  const whole = /^(?:(?:bearer|basic|token)\s+)?\$([A-Za-z_]\w*)$/i.exec(text.trim())?.[1];
  if (whole !== undefined && (/^[A-Z_][A-Z0-9_]*$/.test(whole) || Object.hasOwn(environment, whole))) return whole;
  for (const [, name] of text.matchAll(/(?<!\$)\$([A-Z_][A-Z0-9_]{2,})/g)) if (Object.hasOwn(environment, name!)) return name!;
  return null;
}

function braceless(name: string, text: string): InterpolationError {
  const scheme = /^(bearer|basic|token)\s/i.exec(text.trim())?.[1];
  const added = scheme === undefined ? "" : `, without ${scheme}: the gateway adds it`;
  return {
    reason: `the variable ${name} is written without braces, so it would be used literally`,
    fix: `write \${${name}}${added}; a literal dollar sign is \${$}`,
  };
}

const unclosed: InterpolationError = {
  reason: "a `${` has no closing brace",
  fix: "close it as in ${NAME}, or write $${ for a literal ${",
};

const badName: InterpolationError = {
  reason: "the text between ${ and } is not the name of a variable",
  fix: "use letters, digits and underscores, as in ${NAME} or ${NAME:-default}, or write $${ for a literal ${",
};

function missing(name: string, environment: Environment): InterpolationError {
  if (Object.hasOwn(environment, `${name}_FILE`)) {
    return {
      reason: `the environment variable ${name} is not set, and the file that ${name}_FILE names cannot be read`,
      fix: "check the path and its permissions",
    };
  }
  return {
    reason: `the environment variable ${name} is not set`,
    fix: `set ${name} before starting, or give a default: \${${name}:-…}`,
  };
}

/**
 * The environment of a configuration, with the contents of secret files: where the text has `${NAME}` and only `NAME_FILE` is set, NAME is
 * what that file contains. Containers and systemd give secrets to a process as files, because variables can be read from outside.
 */
export function withSecretFiles(text: string, environment: Environment, readSecretFile: (path: string) => string | null): Environment {
  const added: Record<string, string> = {};
  const names = new Set([...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)/g)].map(([, name = ""]) => name));
  for (const name of names) {
    if (valueOf(environment, name) !== "") continue;
    const path = valueOf(environment, `${name}_FILE`);
    const contents = path === "" ? null : readSecretFile(path);
    // As in a shell's `$(cat file)`, the line ends at its end are not part of it.
    if (contents !== null) added[name] = contents.replace(/[\r\n]+$/, "");
  }
  return { ...environment, ...added };
}

function valueOf(environment: Environment, name: string): string {
  return (Object.hasOwn(environment, name) ? environment[name] : undefined) ?? "";
}
