import { SseReader } from "../dialects/readers/sse.ts";
import { labModel, labText } from "./lab-chat.ts";

/** What the client of a lab call saw. */
export interface LabClientView {
  /** `answer`: all of the text, once. `interruption`: a part of it, and then an error. `wrong`: a text that is not the one that was sent. */
  readonly sees: "answer" | "error" | "interruption" | "wrong";
  /** Null if no answer came. */
  readonly status: number | null;
  readonly code: string | null;
  readonly words: number;
  readonly retryAfterS: number | null;
}

export interface LabCallTarget {
  readonly url: string;
  readonly token: string;
  readonly requestId: string;
  readonly stream: boolean;
  readonly signal: AbortSignal;
}

/** Makes a call as a client does, and checks what it gets. It does not reject. */
export async function callAsClient({ url, token, requestId, stream, signal }: LabCallTarget): Promise<LabClientView> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "x-request-id": requestId },
      body: JSON.stringify({ model: labModel, stream, messages: [{ role: "user", content: "Count the words." }] }),
      signal,
    });
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const { text, code, isWhole } = isStream ? readStream(await response.bytes()) : readWhole(await response.text());
    const retryAfter = response.headers.get("retry-after");
    return {
      sees: code !== null ? (text === "" ? "error" : "interruption") : isWhole && text === labText ? "answer" : "wrong",
      status: response.status,
      code,
      words: text === "" ? 0 : text.split(" ").length,
      retryAfterS: retryAfter === null ? null : Number(retryAfter),
    };
  } catch {
    return { sees: "error", status: null, code: signal.aborted ? "stopped" : "connection_lost", words: 0, retryAfterS: null };
  }
}

interface LabAnswer {
  readonly text: string;
  readonly code: string | null;
  /** It has its end. */
  readonly isWhole: boolean;
}

interface AnswerDocument {
  readonly error?: { readonly code?: string | null; readonly type?: string };
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string };
  }[];
}

function readWhole(body: string): LabAnswer {
  const { error, choices } = JSON.parse(body) as AnswerDocument;
  return { text: choices?.[0]?.message?.content ?? "", code: codeOf(error), isWhole: true };
}

function readStream(body: Uint8Array): LabAnswer {
  const events = new SseReader().push(body);
  let text = "";
  let code: string | null = null;
  let isWhole = false;
  for (const { data } of events === "too_large" ? [] : events) {
    if (data === "[DONE]") {
      isWhole = true;
      continue;
    }
    const { error, choices } = JSON.parse(data) as AnswerDocument;
    code ??= codeOf(error);
    text += choices?.[0]?.delta?.content ?? "";
  }
  return { text, code, isWhole };
}

function codeOf(error: AnswerDocument["error"]): string | null {
  return error === undefined ? null : (error.code ?? error.type ?? "unknown");
}
