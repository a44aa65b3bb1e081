import { isBearerToken } from "../../keys/bearer.ts";
import { tokenPrefix } from "../../keys/token.ts";
import { unguessableLength } from "../../manage/guessable.ts";

/** Why the token in ADMIN_TOKEN_FILE may not be used; null if it may. The text is for the operator. */
export function operatorTokenProblem(token: string): string | null {
  const fix = "Create one with `openssl rand -hex 32`.";
  if (token.length < charactersMin) return `The admin token is shorter than ${charactersMin} characters. ${fix}`;
  if (!isBearerToken(token)) return `The admin token cannot be sent in a header: use letters, digits and dashes. ${fix}`;
  if (token.startsWith(tokenPrefix)) return `The admin token looks like a client key; the two must not be the same. ${fix}`;
  if (unguessableLength(token) < unguessableMin || new Set(token).size < distinctMin) {
    return `The admin token can be guessed: it repeats itself, or is made of well-known words. ${fix}`;
  }
  return null;
}

const charactersMin = 32;
/** Less than the whole length, because a random token may contain a short sequence by chance. */
const unguessableMin = 24;
/** Of 32 random hexadecimal digits, about fourteen are different. */
const distinctMin = 8;
