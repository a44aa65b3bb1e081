import type { Voices } from "./channel.ts";
import { failure, type Failure } from "../operations/failure.ts";

export interface ChosenVoice {
  /** The name to send upstream; null: the client's own. */
  readonly voice: string | null;
  /** The voice that is reported to the client because it is not the one it named. */
  readonly reported: string | null;
}

const unchanged: ChosenVoice = { voice: null, reported: null };

/**
 * The voice that is requested from a channel. A name on the channel's list is translated, an upstream name is sent unchanged, and
 * the channel's settings decide about any other.
 */
export function voiceFor(voices: Voices, requested: string | null): ChosenVoice | Failure {
  // The client sent an object, which only its own provider understands.
  if (requested === null) return unchanged;
  const { names, unknown, fallback } = voices;
  const listed = names.get(requested);
  if (listed !== undefined) return replaced(requested, listed);
  if (unknown === "pass" || isUpstreamName(voices, requested)) return unchanged;
  if (unknown === "refuse") return refusal(voices, requested);
  return fallback === null ? unchanged : replaced(requested, names.get(fallback) ?? fallback);
}

function replaced(requested: string, voice: string): ChosenVoice {
  return voice === requested ? unchanged : { voice, reported: voice };
}

function isUpstreamName({ names, fallback }: Voices, requested: string): boolean {
  if (requested === fallback) return true;
  for (const voice of names.values()) if (voice === requested) return true;
  return false;
}

/** The failure is `unsupported`, not `invalid_request`, because another channel may have the voice. */
function refusal({ names }: Voices, requested: string): Failure {
  const known = [...names.keys()];
  const listed = known
    .slice(0, listedMax)
    .map((name) => `'${name}'`)
    .join(", ");
  const list = known.length > listedMax ? `${listed} and ${known.length - listedMax} more` : listed;
  const shown = requested.length > shownLengthMax ? `${requested.slice(0, shownLengthMax)}…` : requested;
  return failure("unsupported", "the channel does not have the voice that was asked for", {
    message: `Invalid value for 'voice': '${shown}' is not supported.${known.length === 0 ? "" : ` Supported values are: ${list}.`}`,
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "voice",
  });
}

const listedMax = 64;
const shownLengthMax = 64;
