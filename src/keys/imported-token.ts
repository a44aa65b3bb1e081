import { bearerCharactersMax, isBearerToken } from "./bearer.ts";
import { adminTokenPrefix, parseToken, tokenPrefix } from "./token.ts";

/** A shorter key could be guessed. */
export const importedCharactersMin = 32;

/** 32 random hexadecimal digits have about fourteen different ones. */
const distinctMin = 8;

/** Why a text cannot become the token of a key, and how to fix it; null if it can. The text itself is not repeated. */
export function importProblem(token: string): string | null {
  if (token.length < importedCharactersMin) return `an imported key must have at least ${importedCharactersMin} characters`;
  if (token.length > bearerCharactersMax) return `a key can have at most ${bearerCharactersMax} characters`;
  if (new Set(token).size < distinctMin) return "it repeats a few characters and could be guessed: use a random one";
  if (!isBearerToken(token))
    return "clients cannot send this key: it is too long, or contains a space, a comma or a character outside ASCII";
  if (token.startsWith(adminTokenPrefix))
    return `tokens that begin with ${adminTokenPrefix} are for the admin API, and cannot be client keys`;
  if (parseToken(token) === "damaged")
    return `a key that begins with ${tokenPrefix} has a checksum, and the one of this key is wrong: copy it again`;
  return null;
}
