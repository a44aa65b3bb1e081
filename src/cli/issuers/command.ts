import type { CommandSurroundings } from "../command-context.ts";
import type { AccessManagement, BlockedSubjectView } from "../management/access-management.ts";
import { isoMinute, json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { IssuersRequest } from "./arguments.ts";

export async function runIssuers(request: IssuersRequest, management: AccessManagement, { terminal }: CommandSurroundings): Promise<void> {
  const answer = (value: unknown, words: string): void => terminal.print(request.json ? json(value) : words);
  if (request.act === "blocked") {
    const all = await management.blockedSubjects();
    if (all.length === 0 && !request.json) return terminal.say("Nothing is blocked.");
    return answer(all, blockedTable(all));
  }
  const { issuer, subject } = request;
  const whose = subject === null ? `all tokens of issuer ${issuer}` : `the tokens of subject ${subject} of issuer ${issuer}`;
  if (request.act === "block") {
    await management.blockSubject(issuer, subject);
    return answer({ issuer, subject, blocked: true }, `Blocked ${whose}.`);
  }
  await management.unblockSubject(issuer, subject);
  return answer({ issuer, subject, blocked: false }, `Unblocked ${whose}.`);
}

function blockedTable(blocked: readonly BlockedSubjectView[]): string {
  return table<BlockedSubjectView>(
    [
      { title: "ISSUER", cell: ({ issuer }) => issuer },
      { title: "SUBJECT", cell: ({ subject }) => subject ?? "(all)" },
      { title: "SINCE", cell: ({ blocked_at }) => isoMinute(blocked_at) },
    ],
    blocked,
  );
}
