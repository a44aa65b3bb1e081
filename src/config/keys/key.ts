import { isBearerToken } from "../../keys/bearer.ts";
import { fileKeyPrefix } from "../../keys/key.ts";
import { parseToken, tokenPrefix } from "../../keys/token.ts";
import { problem, warning, type Finding, type Path } from "../findings/problem.ts";
import { fileGroupId } from "./group.ts";
import { limitsFindings, limitsIn } from "./limits.ts";
import type { KeyEntry } from "../schema.ts";
import type { ClientKey } from "../settings.ts";

/** Shorter keys can be guessed. */
const keyCharactersMin = 16;

export interface KeyReading {
  readonly key: ClientKey;
  readonly findings: readonly Finding[];
}

/** `groups`: the names of the groups in the file. */
export function readKey(entry: KeyEntry, path: Path, nowMs: number, groups: ReadonlySet<string>): KeyReading {
  const parsed = parseToken(entry.key);
  const findings: Finding[] = [];
  if (entry.key.length < keyCharactersMin) {
    findings.push(
      problem(
        [...path, "key"],
        `a key needs at least ${keyCharactersMin} characters`,
        `use a random one, such as the output of \`openssl rand -hex 32\`; keys that Sluice creates begin with ${tokenPrefix}`,
      ),
    );
  } else if (parsed === "damaged") {
    findings.push(
      problem(
        [...path, "key"],
        `keys that begin with ${tokenPrefix} contain a checksum, and the one of this key is wrong`,
        `copy the key again, or choose one that does not begin with ${tokenPrefix}`,
      ),
    );
  } else if (!isBearerToken(entry.key)) {
    findings.push(problem([...path, "key"], "clients could not send this key: it is too long or contains a comma", "choose another"));
  }
  findings.push(...limitsFindings(entry.limits, [...path, "limits"]));
  if (entry.group !== undefined && !groups.has(entry.group)) {
    findings.push(
      problem([...path, "group"], `there is no group ${JSON.stringify(entry.group)} in this file`, "add it to groups, or remove the line"),
    );
  }
  const expiresMs = entry.expires ?? null;
  if (expiresMs !== null && expiresMs <= nowMs) {
    findings.push(warning([...path, "expires"], "this key has expired and is rejected", "remove it, or give a later date"));
  }
  return {
    key: {
      key: {
        id: typeof parsed === "string" ? `${fileKeyPrefix}${entry.name}` : parsed.publicId,
        name: entry.name,
        models: entry.models ?? null,
        operations: entry.operations ?? null,
        channels: entry.channels ?? null,
        expiresMs,
        limits: limitsIn(entry.limits),
        group: entry.group === undefined ? null : fileGroupId(entry.group),
        splits: { audio: entry.long_audio === "split", input: entry.long_input === "split" },
      },
      token: entry.key,
    },
    findings,
  };
}
