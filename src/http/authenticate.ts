import { parseBearer } from "../keys/bearer.ts";
import type { Key } from "../keys/key.ts";
import { failure, type Failure } from "../operations/failure.ts";
import type { KeyRing } from "./key-ring.ts";

/** Who is asking, judged from the headers alone: no body is read for a stranger. */
export function authenticate(request: Request, ring: KeyRing, wallMs: number): Key | Failure {
  const bearer = parseBearer(request.headers.get("authorization"));
  if (bearer.kind === "ambiguous") return ambiguous;
  const other = request.headers.get("x-api-key");
  if (bearer.kind !== "token") return unauthorized;
  if (other !== null && other !== bearer.token) return ambiguous;
  const key = ring.find(bearer.token);
  if (key === null) return unauthorized;
  if (key.expiresMs !== null && key.expiresMs <= wallMs) return unauthorized;
  return key;
}

/** One answer for a missing, malformed, unknown and expired key: whoever guesses learns nothing. */
const unauthorized = failure("invalid_request", "no valid key", {
  message: "Incorrect or missing API key. Send a valid key as 'Authorization: Bearer <key>'.",
  status: 401,
  type: "invalid_request_error",
  code: "invalid_api_key",
});

const ambiguous = failure("invalid_request", "more than one credential", {
  message: "The request carries more than one credential. Send exactly one key as 'Authorization: Bearer <key>'.",
  status: 400,
  type: "invalid_request_error",
  code: "ambiguous_credentials",
});
