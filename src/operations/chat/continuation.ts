import { isTokenBound, readChatRequest, type ChatRequest } from "./chat-request.ts";
import type { Conversation, ConversationTurn } from "../conversation/conversation.ts";
import { isFailure } from "../failure.ts";
import { elementsOf, lastMember, membersOf, valueOf } from "../json.ts";
import { endOf } from "./resume.ts";
import { splice, type Splice } from "../splice.ts";

/**
 * How another model is asked to continue a text. `prefill`: the text is an unfinished assistant message at the end of the conversation.
 * `repeat`: most models do not support that; they are told what happened, and repeat the end of the text first, so that the two texts
 * can be joined.
 */
export type Continuation = "prefill" | "repeat";

/**
 * The request for the rest of a text, with `tokensSpent` subtracted from its limits; null if the conversation does not allow it.
 * `translated`: the text so far was written by the surface, and so must be the rest.
 */
export function continued(ask: ChatRequest, text: string, how: Continuation, tokensSpent: number, translated: boolean): ChatRequest | null {
  if (translated || ask.surface !== "openai-chat") return continuedConversation(ask, text, how, tokensSpent);
  const messages = lastMember(ask.members, "messages");
  if (messages === undefined || endsWithAnswer(ask, messages)) return null;
  const written = text.trimEnd();
  const answer = { role: "assistant", content: written };
  const turns = how === "prefill" ? [answer] : [answer, { role: "user", content: requestToRepeat(endOf(text)) }];
  const at = messages.end - 1;
  const added = { start: at, end: at, text: turns.map((turn) => `,${JSON.stringify(turn)}`).join("") };
  const read = readChatRequest(splice(ask.body, [added, ...whatIsLeft(ask, tokensSpent)]), ask.toConversation);
  return isFailure(read) ? null : read;
}

/** The request for the whole answer once more, in the form that `continued` gives it. */
export function repeated(ask: ChatRequest, translated: boolean): ChatRequest {
  return translated || ask.surface !== "openai-chat" ? { ...ask, surface: null } : ask;
}

/** The same as a conversation, whatever API the client speaks. */
function continuedConversation(ask: ChatRequest, text: string, how: Continuation, tokensSpent: number): ChatRequest | null {
  const conversation = ask.toConversation(ask);
  if (isFailure(conversation) || conversation.turns.at(-1)?.role === "assistant") return null;
  const answer: ConversationTurn = { role: "assistant", parts: [{ kind: "text", text: text.trimEnd() }] };
  const request: ConversationTurn = { role: "user", parts: [{ kind: "text", text: requestToRepeat(endOf(text)) }] };
  const { turns, maxOutputTokens } = conversation;
  const rest: Conversation = {
    ...conversation,
    turns: how === "prefill" ? [...turns, answer] : [...turns, answer, request],
    maxOutputTokens: maxOutputTokens === null ? null : Math.max(1, maxOutputTokens - tokensSpent),
  };
  return { ...ask, surface: null, toConversation: () => rest };
}

/** The client began the answer itself: two in a row would be two answers. */
function endsWithAnswer({ body }: ChatRequest, messages: { readonly start: number; readonly end: number }): boolean {
  const last = elementsOf(body, messages.start, messages.end).at(-1);
  if (last?.kind !== "object") return true;
  const role = lastMember(membersOf(body, last.start, last.end), "role");
  return role?.kind === "string" && valueOf(body, role) === "assistant";
}

/** Lowers each limit on the answer. A value that is no limit, such as -1, stays as it is. */
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
