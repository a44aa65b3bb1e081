import { isBearerToken } from "../../keys/bearer.ts";
import { tokenPrefix } from "../../keys/token.ts";
import { unguessableLength } from "../../manage/guessable.ts";

/** Why a token that the owner chose may not open the admin API, or null. The text is for whoever starts the program. */
export function operatorTokenProblem(token: string): string | null {
  const mend = "Make one with `openssl rand -hex 32`.";
  if (token.length < charactersMin) return `The given admin token is shorter than ${charactersMin} characters. ${mend}`;
  if (!isBearerToken(token)) return `The given admin token cannot be sent in a header: use letters, digits and dashes. ${mend}`;
  if (token.startsWith(tokenPrefix)) return `The given admin token looks like a client key; the two must not be the same. ${mend}`;
  if (unguessableLength(token) < unguessableMin || new Set(token).size < distinctMin) {
    return `The given admin token can be guessed: it repeats itself, or is made of well-known words. ${mend}`;
  }
  return null;
}

const charactersMin = 32;
/** A little under the whole, since a random token may happen to hold a short row. */
const unguessableMin = 24;
/** Of 32 random hexadecimal digits, about fourteen are different. */
const distinctMin = 8;
