import { StorageError, type Actor } from "../../gateway/storage.ts";
import { ManageError } from "../error.ts";
import type { DesiredResources, ResourceChange, ResourceContext } from "./desired-resources.ts";
import { plannedChanges } from "./planned-changes.ts";

export interface ApplyOptions {
  /** Removes what the file does not have, in the lists that it has. */
  readonly prune: boolean;
  /** Makes all changes, and takes them back. So it fails where the real one would. */
  readonly dryRun: boolean;
  /** For the audit log. */
  readonly file: string;
}

/** Makes the store say what a file says: all of it in one transaction, or nothing. Returns what changed. */
export async function applyResources(
  context: ResourceContext,
  desired: DesiredResources,
  { prune, dryRun, file }: ApplyOptions,
  actor: Actor,
): Promise<readonly ResourceChange[] | ManageError> {
  try {
    return await context.storage.together(async (storage) => {
      const inside = { ...context, storage, reports: storage };
      const planned = await plannedChanges(inside, desired, prune);
      if (planned instanceof ManageError) throw new ApplyRefused(planned);
      for (const { change, run } of planned) {
        const result = await run(inside, actor).catch(refusedByStore);
        if (result instanceof ManageError) throw new ApplyRefused(aboutChange(result, change));
      }
      const changes = planned.map(({ change }) => change);
      if (changes.length > 0) await storage.audit.note("config.apply", file, summary(changes), actor);
      if (dryRun) throw new TakenBack(changes);
      return changes;
    });
  } catch (error) {
    if (error instanceof TakenBack) return error.changes;
    if (error instanceof ApplyRefused) return error.reason;
    throw error;
  }
}

/** Thrown, so that the transaction is rolled back. */
class ApplyRefused extends Error {
  constructor(readonly reason: ManageError) {
    super(reason.message);
  }
}

class TakenBack extends Error {
  constructor(readonly changes: readonly ResourceChange[]) {
    super("dry run");
  }
}

/** What the store refuses is about one change, too, and its line. What else goes wrong is not. */
function refusedByStore(error: unknown): ManageError {
  if (!(error instanceof StorageError)) throw error;
  switch (error.kind) {
    case "conflict":
      return new ManageError("conflict", error.message);
    case "missing":
      return new ManageError("not_found", error.message);
    case "invalid":
      return new ManageError("invalid_value", error.message);
    default:
      throw error;
  }
}

function aboutChange({ code, message, field }: ManageError, { what, name, line }: ResourceChange): ManageError {
  return new ManageError(code, `${line === null ? "" : `Line ${line}: `}${what} ${name}: ${message}`, field);
}

/** How many of each kind; each of them has an audit entry of its own. */
function summary(changes: readonly ResourceChange[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { what, action } of changes) counts[`${what}.${action}`] = (counts[`${what}.${action}`] ?? 0) + 1;
  return counts;
}
