import type { FewerBetas, Target } from "../dialect.ts";
import type { AnthropicHost } from "./hosts.ts";

/** The header that names the beta features of a request. */
export const betaHeader = "anthropic-beta";

/** The beta features of a request. */
export interface SentBetas {
  readonly names: readonly string[];
  /** Those of the client that are not named, because the upstream refuses them: for the client to read. */
  readonly dropped: readonly string[];
  /** How many fewer may be named if the upstream refuses these; null where it gets what it was sent. */
  readonly fewer: FewerBetas | null;
}

/**
 * Clients name all features that they could make use of. A cloud that does not know one of them refuses the whole request, and need not say
 * which it was: so all are named first, then those that clouds are known to take, and none at last. What an operator has configured is sent
 * as it is, and so is everything to a host that knows all of them.
 */
export function betasFor({ channel, forwarded, betas }: Target, { knownBetas }: AnthropicHost): SentBetas {
  if (knownBetas === null) return passedThrough;
  const configured = channel.headers[betaHeader];
  const asked = namesIn(configured ?? forwarded[betaHeader] ?? "");
  if (configured !== undefined) return { ...passedThrough, names: asked };
  const known = asked.filter((name) => knownBetas.has(name));
  const names = betas === "none" ? [] : betas === "known" ? known : asked;
  const dropped = asked.filter((name) => !names.includes(name)).map((name) => `betas.${name}`);
  return {
    names,
    dropped: dropped.slice(0, droppedMax),
    fewer: names.length === 0 ? null : known.length > 0 && known.length < names.length ? "known" : "none",
  };
}

/** Nothing is decided here: the client's own header is forwarded. */
const passedThrough: SentBetas = { names: [], dropped: [], fewer: null };
const droppedMax = 32;

function namesIn(list: string): readonly string[] {
  return list
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}
