import type { Actor, BlockedSubject } from "../gateway/storage.ts";
import { isoMoment } from "../usage/time-text.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";

/** Refuses the tokens of a subject from now on, or, with null, all tokens of an issuer; running calls end. */
export async function blockSubject(
  { storage, tokenIssuers }: ManageContext,
  issuer: string,
  subject: string | null,
  actor: Actor,
): Promise<null | ManageError> {
  // A mistyped name would block nobody.
  if (!tokenIssuers().includes(issuer)) return noSuchIssuer(tokenIssuers());
  await storage.blockedSubjects.block(issuer, subject, actor);
  return null;
}

/** An issuer that is not in the configuration any more can be unblocked. */
export async function unblockSubject({ storage }: ManageContext, issuer: string, subject: string | null, actor: Actor): Promise<void> {
  await storage.blockedSubjects.unblock(issuer, subject, actor);
}

export function blockedView({ issuer, subject, createdMs }: BlockedSubject) {
  return { issuer, subject, blocked_at: isoMoment(createdMs) };
}

function noSuchIssuer(known: readonly string[]): ManageError {
  const names = known.length === 0 ? "it has none" : `it has ${known.join(", ")}`;
  return new ManageError("not_found", `There is no such issuer under token_issuers in the configuration: ${names}.`, "issuer");
}
