import { variable, type MachineFacts } from "./identity-ports.ts";

export interface ProfileKeys {
  readonly id: string;
  readonly secret: string;
  readonly token: string | null;
}

/**
 * The access keys of the user's profile: of the file of credentials, else of the file of settings
 * (docs.aws.amazon.com/sdkref/latest/guide/file-format.html). A profile that only names a role or a login has none here.
 */
export async function profileKeys(facts: MachineFacts): Promise<ProfileKeys | null> {
  const name = variable(facts, "AWS_PROFILE") ?? "default";
  const home = variable(facts, "HOME") ?? variable(facts, "USERPROFILE");
  const credentials = variable(facts, "AWS_SHARED_CREDENTIALS_FILE") ?? (home === null ? null : `${home}/.aws/credentials`);
  const settings = variable(facts, "AWS_CONFIG_FILE") ?? (home === null ? null : `${home}/.aws/config`);
  const sections = [
    [credentials, name],
    [settings, name === "default" ? name : `profile ${name}`],
  ] as const;
  for (const [path, section] of sections) {
    const text = path === null ? null : await facts.readFile(path);
    const keys = text === null ? null : keysOf(sectionOf(text, section));
    if (keys !== null) return keys;
  }
  return null;
}

function keysOf(fields: ReadonlyMap<string, string>): ProfileKeys | null {
  const [id, secret] = [fields.get("aws_access_key_id") ?? "", fields.get("aws_secret_access_key") ?? ""];
  const token = fields.get("aws_session_token") ?? "";
  return id === "" || secret === "" ? null : { id, secret, token: token === "" ? null : token };
}

/** The settings of one section. Those that are indented belong to a setting and not to the section. */
export function sectionOf(text: string, section: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let isInside = false;
  for (const line of text.split(/\r?\n/)) {
    const head = /^\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (head !== undefined) isInside = head.replace(/\s+/, " ") === section;
    const field = isInside ? /^([A-Za-z_]+)\s*=\s*(.*?)\s*$/.exec(line) : null;
    if (field !== null) fields.set((field[1] ?? "").toLowerCase(), field[2] ?? "");
  }
  return fields;
}
