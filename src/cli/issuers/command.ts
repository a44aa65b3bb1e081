import type { BlockedSubject } from "../../gateway/storage.ts";
import { blockedView, blockSubject, unblockSubject } from "../../manage/blocked-subjects.ts";
import { orThrow } from "../command-error.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { json, localMinute } from "../shown-text.ts";
import { table } from "../table.ts";
import type { IssuersRequest } from "./arguments.ts";

export async function runIssuers(request: IssuersRequest, store: OpenStore, { terminal, actor }: CommandContext): Promise<void> {
  const answer = (value: unknown, words: string): void => terminal.print(request.json ? json(value) : words);
  if (request.act === "blocked") {
    const all = await store.storage.blockedSubjects.list();
    if (all.length === 0 && !request.json) return terminal.say("Nothing is blocked.");
    return answer(all.map(blockedView), blockedTable(all));
  }
  const { issuer, subject } = request;
  const whose = subject === null ? `all tokens of issuer ${issuer}` : `the tokens of subject ${subject} of issuer ${issuer}`;
  if (request.act === "block") {
    orThrow(await blockSubject(store, issuer, subject, actor));
    return answer({ issuer, subject, blocked: true }, `Blocked ${whose}.`);
  }
  await unblockSubject(store, issuer, subject, actor);
  return answer({ issuer, subject, blocked: false }, `Unblocked ${whose}.`);
}

function blockedTable(blocked: readonly BlockedSubject[]): string {
  return table<BlockedSubject>(
    [
      { title: "ISSUER", cell: ({ issuer }) => issuer },
      { title: "SUBJECT", cell: ({ subject }) => subject ?? "(all)" },
      { title: "SINCE", cell: ({ createdMs }) => localMinute(createdMs) },
    ],
    blocked,
  );
}
