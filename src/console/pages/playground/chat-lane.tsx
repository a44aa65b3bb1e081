import { ApiError, ask, send } from "../../core/api.ts";
import { count, duration, money } from "../../core/format.ts";
import { pathTo } from "../../core/location.ts";
import { Markdown } from "../../parts/markdown.tsx";
import { Badge } from "../../parts/notice.tsx";
import { emptyAnswer, EventSplitter, withEvent, type PlayedAnswer } from "./chat-stream.ts";

/** One model that answers, beside others. */
export interface ChatLane {
  readonly model: string;
  readonly answer: PlayedAnswer;
  readonly requestId: string | null;
  readonly firstMs: number | null;
  readonly tookMs: number | null;
  /** Null until the receipt is in the store, or if a price is missing. */
  readonly costUsd: number | null;
}

export function emptyLane(model: string): ChatLane {
  return { model, answer: emptyAnswer, requestId: null, firstMs: null, tookMs: null, costUsd: null };
}

export function Lane({ lane: { model, answer, requestId, firstMs, tookMs, costUsd } }: { readonly lane: ChatLane }) {
  return (
    <section class="card stack" aria-busy={tookMs === null}>
      <header>
        <h2>{model}</h2>
        <span class="small muted">
          first {duration(firstMs)}, all {duration(tookMs)}
        </span>
      </header>
      {answer.reasoning !== "" && (
        <details>
          <summary>Reasoning</summary>
          <p class="turn">{answer.reasoning}</p>
        </details>
      )}
      {answer.text !== "" && <Markdown text={answer.text} />}
      {answer.tools.map(({ name, input }, at) => (
        <p key={at} class="turn">
          <strong>{name}</strong> <code>{input}</code>
        </p>
      ))}
      {answer.error !== null && <p class="bad">{answer.error}</p>}
      <div class="row small muted">
        {answer.finish !== null && <Badge>{answer.finish}</Badge>}
        {answer.completionTokens !== null && (
          <span>
            {count(answer.promptTokens)} → {count(answer.completionTokens)} tokens
          </span>
        )}
        {costUsd !== null && <span>{money(costUsd)}</span>}
        {requestId !== null && tookMs !== null && <a href={pathTo("request", { id: requestId })}>Why it went this way</a>}
      </div>
    </section>
  );
}

export async function playChat(
  key: string,
  request: unknown,
  signal: AbortSignal,
  changed: (change: Partial<ChatLane>) => void,
): Promise<void> {
  const beganMs = performance.now();
  let answer = emptyAnswer;
  let requestId: string | null = null;
  try {
    const response = await send("/playground/chat", { method: "POST", body: { key, request }, signal });
    requestId = response.headers.get("x-sluice-request");
    changed({ requestId });
    const splitter = new EventSplitter();
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      const before = answer;
      for (const data of splitter.push(part.value)) answer = withEvent(answer, data);
      if (before.text === "" && answer.text !== "") changed({ firstMs: performance.now() - beganMs });
      changed({ answer });
    }
  } catch (error) {
    const message = error instanceof ApiError ? error.message : signal.aborted ? "Stopped." : "The connection was lost.";
    changed({ answer: { ...answer, error: message } });
  }
  changed({ tookMs: performance.now() - beganMs });
  if (requestId !== null) void costOf(requestId, signal).then((costUsd) => changed({ costUsd }));
}

/** A receipt reaches the store a moment after its call has ended. */
async function costOf(requestId: string, signal: AbortSignal): Promise<number | null> {
  for (let tries = 0; tries < costTries && !signal.aborted; tries += 1) {
    await new Promise((done) => setTimeout(done, costPauseMs));
    const { receipts } = await ask<ReceiptList>("/receipts", { query: { since: "1h", limit: 50 }, signal }).catch((): ReceiptList => none);
    const found = receipts.find(({ request_id }) => request_id === requestId);
    if (found !== undefined) return found.cost_usd;
  }
  return null;
}

interface ReceiptList {
  readonly receipts: readonly { readonly request_id: string; readonly cost_usd: number | null }[];
}

const none: ReceiptList = { receipts: [] };
const costTries = 10;
const costPauseMs = 700;
