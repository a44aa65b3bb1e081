import { bearerCharactersMax, isBearerToken } from "./bearer.ts";
import { adminTokenPrefix, parseToken, tokenPrefix } from "./token.ts";

/** A key that somebody already uses can be guessed when it is shorter. */
export const importedCharactersMin = 32;

/** Of 32 random hexadecimal digits, about fourteen are different. */
const distinctMin = 8;

/** Why a text cannot become the token of a key, with the mend and without the text itself; null when it can. */
export function importProblem(token: string): string | null {
  if (token.length < importedCharactersMin) return `a key that is brought along must have at least ${importedCharactersMin} characters`;
  if (token.length > bearerCharactersMax) return `a key can have at most ${bearerCharactersMax} characters`;
  if (new Set(token).size < distinctMin) return "it repeats itself, and can be guessed";
  if (!isBearerToken(token)) return "clients could not send this key: it is too long, or holds a space, a comma or something outside ASCII";
  if (token.startsWith(adminTokenPrefix)) return `what begins with ${adminTokenPrefix} is an admin token, and opens nothing else`;
  if (parseToken(token) === "damaged")
    return `a key that begins with ${tokenPrefix} carries a checksum, and this one's is wrong: copy it again`;
  return null;
}
