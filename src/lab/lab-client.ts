import { SseReader } from "../dialects/readers/sse.ts";
import { labSound, piecesIn } from "./lab-audio.ts";
import { labModel, labText, labTokens } from "./lab-chat.ts";
import type { LabOperation } from "./scenarios.ts";

/** What the client of a lab call saw. */
export interface LabClientView {
  /**
   * `answer`: all of the text or the sound, once. `interruption`: a part of it, and then an error, or a connection that was reset. `wrong`:
   * something that is not what was sent.
   */
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
  readonly operation: LabOperation;
  readonly stream: boolean;
  readonly signal: AbortSignal;
}

/** Makes a call as a client does, and checks what it gets. It does not reject. */
export async function callAsClient(target: LabCallTarget): Promise<LabClientView> {
  const { url, token, requestId, signal } = target;
  try {
    const { path, body, contentType } = requestFor(target);
    const response = await fetch(`${url}/v1${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "x-request-id": requestId, ...contentType },
      body,
      signal,
    });
    const { words, code, isRight } = await readAnswer(response);
    const retryAfter = response.headers.get("retry-after");
    return {
      sees: code !== null ? (words === 0 ? "error" : "interruption") : isRight ? "answer" : "wrong",
      status: response.status,
      code,
      words,
      retryAfterS: retryAfter === null ? null : Number(retryAfter),
    };
  } catch {
    return { sees: "error", status: null, code: signal.aborted ? "stopped" : "connection_lost", words: 0, retryAfterS: null };
  }
}

function requestFor({ operation, stream }: LabCallTarget): LabClientRequest {
  const json = { "content-type": "application/json" };
  switch (operation) {
    case "chat": {
      const messages = [{ role: "user", content: "Count the words." }];
      return { path: "/chat/completions", body: JSON.stringify({ model: labModel, stream, messages }), contentType: json };
    }
    case "speech": {
      const body = JSON.stringify({ model: labModel, input: "Count the words.", voice: "lab", response_format: "wav" });
      return { path: "/audio/speech", body, contentType: json };
    }
    case "transcription": {
      const body = new FormData();
      body.set("model", labModel);
      body.set("file", new File([labSound], "lab.wav", { type: "audio/wav" }));
      // Its type has the boundary in it, and comes with it.
      return { path: "/audio/transcriptions", body, contentType: {} };
    }
  }
}

interface LabClientRequest {
  readonly path: string;
  readonly body: string | FormData;
  readonly contentType: Readonly<Record<string, string>>;
}

interface LabAnswer {
  readonly words: number;
  readonly code: string | null;
  readonly isRight: boolean;
}

async function readAnswer(response: Response): Promise<LabAnswer> {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("audio/")) return readSound(response);
  return type.startsWith("text/event-stream") ? readStream(await response.bytes()) : readWhole(await response.text());
}

/** An error after the first sound cannot be told but by a reset. */
async function readSound({ body }: Response): Promise<LabAnswer> {
  const chunks: Uint8Array[] = [];
  let code: string | null = null;
  try {
    for await (const chunk of body ?? []) chunks.push(chunk);
  } catch {
    code = "connection_lost";
  }
  const words = piecesIn(Buffer.concat(chunks));
  return { words: words ?? 0, code, isRight: words === labTokens };
}

function textAnswer(text: string, code: string | null, isWhole: boolean): LabAnswer {
  return { words: text === "" ? 0 : text.split(" ").length, code, isRight: isWhole && text === labText };
}

interface AnswerDocument {
  readonly text?: string;
  readonly error?: { readonly code?: string | null; readonly type?: string };
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string };
  }[];
}

function readWhole(body: string): LabAnswer {
  const { error, choices, text } = JSON.parse(body) as AnswerDocument;
  return textAnswer(choices?.[0]?.message?.content ?? text ?? "", codeOf(error), true);
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
  return textAnswer(text, code, isWhole);
}

function codeOf(error: AnswerDocument["error"]): string | null {
  return error === undefined ? null : (error.code ?? error.type ?? "unknown");
}
