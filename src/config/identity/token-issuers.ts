import { defaultKey } from "../../keys/stored-key.ts";
import type { Key } from "../../keys/key.ts";
import { fileGroupId } from "../keys/group.ts";
import { nearest } from "../findings/nearest.ts";
import { problem, warning, type Finding } from "../findings/problem.ts";
import type { ConfigFile } from "../schema.ts";
import type { TokenIssuerSetting } from "../settings.ts";

export interface TokenIssuersReading {
  readonly settings: readonly TokenIssuerSetting[];
  readonly findings: readonly Finding[];
}

type RuleEntry = ConfigFile["token_issuers"][number]["rules"][number];

/**
 * `keys` and `groups` are those of the same file: a rule has the permissions of one, and the limits of both. A key or a group that is not
 * in the file may be in the store, which is not known here: while it does not exist, tokens of the rule are refused.
 */
export function readTokenIssuers(
  { token_issuers: entries }: Pick<ConfigFile, "token_issuers">,
  keys: readonly Key[],
  groups: ReadonlySet<string>,
): TokenIssuersReading {
  const byName = new Map(keys.map((key) => [key.name, key]));
  const findings = entries.flatMap(({ rules }, at): readonly Finding[] => {
    if (rules.length === 0) return [problem(["token_issuers", at], "every token would be refused", "add a rule: rules: [{ key: NAME }]")];
    return rules.flatMap((rule, index) => ruleFindings(rule, ["token_issuers", at, "rules", index]));
  });

  function ruleFindings({ key, group }: RuleEntry, path: readonly (string | number)[]): readonly Finding[] {
    if (key === undefined && group === undefined) {
      return [problem(path, "tokens would have no limits", "name a key or a group: { key: NAME }, { group: NAME }")];
    }
    return [...maybeMeant("key", key, [...byName.keys()], path), ...maybeMeant("group", group, [...groups], path)];
  }

  const settings = entries.map(({ name, issuer, audience, jwks_uri: jwksUri, lifetime, rules }) => ({
    name,
    issuer,
    audience,
    jwksUri: jwksUri ?? null,
    lifetimeMs: lifetime,
    rules: rules.map(({ key, group, claims }) => ({
      claims: claims ?? new Map<string, string>(),
      key: withGroup(
        (key === undefined ? undefined : byName.get(key)) ?? unlimitedKey,
        group !== undefined && groups.has(group) ? group : undefined,
      ),
      storedKey: key === undefined || byName.has(key) ? null : key,
      storedGroup: group === undefined || groups.has(group) ? null : group,
      namesGroup: group !== undefined,
    })),
  }));
  return { settings, findings };
}

/** What is not in the file must be in the store, unless it is a spelling mistake. */
function maybeMeant(
  what: "key" | "group",
  name: string | undefined,
  known: readonly string[],
  path: readonly (string | number)[],
): readonly Finding[] {
  const similar = name === undefined || known.includes(name) ? null : nearest(name, known);
  if (similar === null) return [];
  const reason = `there is no ${what} '${name}' in this file, so that a ${what} of the store is meant`;
  return [warning([...path, what], reason, `write '${similar}' if you mean the one in this file`)];
}

/** Its id and name are those of the subject, in the end. */
const unlimitedKey: Key = { ...defaultKey, id: "", name: "" };

function withGroup(key: Key, group: string | undefined): Key {
  return group === undefined ? key : { ...key, group: fileGroupId(group) };
}
