import { AdminError } from "../admin-error.ts";
import type { LoginGuard } from "./login-guard.ts";

/** Makes an attempt if the guard allows it, and reports its outcome. An error on our side does not count as a failed attempt. */
export async function guarded<Value>(
  guard: LoginGuard,
  address: string,
  attempt: () => Promise<Value | AdminError>,
): Promise<Value | AdminError> {
  const waitMs = guard.enter(address);
  if (waitMs !== null) return tooManyAttempts(waitMs);
  let succeeded = true;
  try {
    const outcome = await attempt();
    succeeded = !(outcome instanceof AdminError) || outcome.status >= 500;
    return outcome;
  } finally {
    guard.leave(succeeded);
  }
}

function tooManyAttempts(waitMs: number): AdminError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new AdminError(429, "too_many_attempts", `Too many attempts. Try again in ${seconds} seconds.`, null, {
    "retry-after": String(seconds),
  });
}
