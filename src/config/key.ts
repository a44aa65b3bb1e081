import { limitsOf, type RateLimitFields } from "../limits/limit-fields.ts";
import { unlimited } from "../limits/limits.ts";
import { isBearerToken } from "../keys/bearer.ts";
import { parseToken, tokenPrefix } from "../keys/token.ts";
import { problem, warning, type Finding, type Path } from "./findings/problem.ts";
import type { KeyEntry } from "./schema.ts";
import type { ClientKey } from "./settings.ts";

/** Shorter keys can be guessed. */
const keyCharactersMin = 16;

export interface KeyReading {
  readonly key: ClientKey;
  readonly findings: readonly Finding[];
}

export function readKey(entry: KeyEntry, path: Path, nowMs: number): KeyReading {
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
  for (const [rulePath, limits] of budgetsIn(entry.limits)) {
    if (limits.budget_period !== undefined && limits.budget_usd === undefined) {
      findings.push(
        problem(
          [...path, "limits", ...rulePath, "budget_period"],
          "there is no budget for this period",
          "add budget_usd, or remove this line",
        ),
      );
    }
  }
  const expiresMs = entry.expires ?? null;
  if (expiresMs !== null && expiresMs <= nowMs) {
    findings.push(warning([...path, "expires"], "this key has expired and is rejected", "remove it, or give a later date"));
  }
  return {
    key: {
      key: {
        id: typeof parsed === "string" ? `file:${entry.name}` : parsed.publicId,
        name: entry.name,
        models: entry.models ?? null,
        operations: entry.operations ?? null,
        channels: entry.channels ?? null,
        expiresMs,
        limits: entry.limits === undefined ? unlimited : limitsOf(entry.limits),
        group: null,
        splits: { audio: entry.long_audio === "split", input: entry.long_input === "split" },
      },
      token: entry.key,
    },
    findings,
  };
}

function budgetsIn(limits: KeyEntry["limits"]): readonly (readonly [Path, RateLimitFields])[] {
  if (limits === undefined) return [];
  return [[[], limits], ...limits.per_model.map((rule, at) => [["per_model", at], rule] as const)];
}
