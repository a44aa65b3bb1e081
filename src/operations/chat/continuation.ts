import { isTokenBound, readChatRequest, type ChatRequest } from "./chat-request.ts";
import { isFailure } from "../failure.ts";
import { elementsOf, lastMember, membersOf, valueOf } from "../json.ts";
import { endOf } from "./resume.ts";
import { splice, type Splice } from "../splice.ts";

/**
 * How another model is asked to go on with a text. `prefill`: it stands as an unfinished message of its own at the end of the
 * conversation. `repeat`: most models refuse that, or answer it; they are told what happened, and repeat its end first, so
 * that the seam can be found.
 */
export type Continuation = "prefill" | "repeat";

/** The same request for the rest of a text, of whose tokens so many are spent; null where its conversation leaves no place for that. */
export function continued(ask: ChatRequest, text: string, how: Continuation, tokensSpent: number): ChatRequest | null {
  const messages = lastMember(ask.members, "messages");
  if (messages === undefined || endsWithAnswer(ask, messages)) return null;
  const written = text.trimEnd();
  const answer = { role: "assistant", content: written };
  const turns = how === "prefill" ? [answer] : [answer, { role: "user", content: requestToRepeat(endOf(text)) }];
  const at = messages.end - 1;
  const added = { start: at, end: at, text: turns.map((turn) => `,${JSON.stringify(turn)}`).join("") };
  const read = readChatRequest(splice(ask.body, [added, ...whatIsLeft(ask, tokensSpent)]));
  return isFailure(read) ? null : read;
}

/** The client began the answer itself: two in a row would be two answers. */
function endsWithAnswer({ body }: ChatRequest, messages: { readonly start: number; readonly end: number }): boolean {
  const last = elementsOf(body, messages.start, messages.end).at(-1);
  if (last?.kind !== "object") return true;
  const role = lastMember(membersOf(body, last.start, last.end), "role");
  return role?.kind === "string" && valueOf(body, role) === "assistant";
}

/** Of each bound on the answer; one that was none, such as -1, stays as it is. */
function whatIsLeft({ body, members }: ChatRequest, tokensSpent: number): readonly Splice[] {
  return members.flatMap((member) => {
    if (!isTokenBound(member.key) || member.kind !== "number") return [];
    const bound = valueOf(body, member) as number;
    return bound <= 0 ? [] : [{ start: member.start, end: member.end, text: String(Math.max(1, bound - tokensSpent)) }];
  });
}

function requestToRepeat(end: string): string {
  return `The connection broke, and your answer above was cut off. Continue it from exactly there, in the same language and format. \
First repeat its last characters, which stand between the two lines of dashes, exactly as they are; then go on with what follows them, as \
if nothing had happened. Do not start over, do not comment on this, and do not write the dashes.
-----
${end}
-----`;
}
