import type { Voices } from "./channel.ts";
import { failure, type Failure } from "../operations/failure.ts";

export interface ChosenVoice {
  /** What to send instead of what the client sent; null: that goes out as it is. */
  readonly voice: string | null;
  /** The voice the client is told of, because it is not the one it named. */
  readonly told: string | null;
}

const asItIs: ChosenVoice = { voice: null, told: null };

/**
 * How a channel is asked for a voice. A name of its list is put into the channel's own words, one that is such a word
 * already is sent as it is, and what becomes of any other is the channel's rule.
 */
export function voiceFor(voices: Voices, asked: string | null): ChosenVoice | Failure {
  // An object names a voice that only its own provider knows.
  if (asked === null) return asItIs;
  const { names, unknown, fallback } = voices;
  const listed = names.get(asked);
  if (listed !== undefined) return replaced(asked, listed);
  if (unknown === "pass" || knows(voices, asked)) return asItIs;
  if (unknown === "refuse") return refusal(voices, asked);
  return fallback === null ? asItIs : replaced(asked, names.get(fallback) ?? fallback);
}

function replaced(asked: string, voice: string): ChosenVoice {
  return voice === asked ? asItIs : { voice, told: voice };
}

function knows({ names, fallback }: Voices, asked: string): boolean {
  if (asked === fallback) return true;
  for (const voice of names.values()) if (voice === asked) return true;
  return false;
}

/** Another channel may have the voice, so this is about the pair and not about the request as such. */
function refusal({ names }: Voices, asked: string): Failure {
  const known = [...names.keys()];
  const listed = known
    .slice(0, listedMax)
    .map((name) => `'${name}'`)
    .join(", ");
  const list = known.length > listedMax ? `${listed} and ${known.length - listedMax} more` : listed;
  const shown = asked.length > shownLengthMax ? `${asked.slice(0, shownLengthMax)}…` : asked;
  return failure("unsupported", "the channel does not have the voice that was asked for", {
    message: `Invalid value for 'voice': '${shown}' is not known here.${known.length === 0 ? "" : ` Known are ${list}.`}`,
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "voice",
  });
}

const listedMax = 64;
const shownLengthMax = 64;
