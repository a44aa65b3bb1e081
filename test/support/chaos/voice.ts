import type { Ask, Tool } from "./ask.ts";
import { exampleOf } from "./example.ts";
import type { Manner } from "./manner.ts";

/** What the answer says, in steps of one streamed delta each. */
export interface Voice {
  /** The steps of a whole answer; a fault may ask for more where the words do not run out. */
  readonly count: number;
  readonly finishReason: string;
  readonly step: (index: number, choice: number) => Step | null;
  /** The message of one choice, for an answer that is not streamed. */
  readonly message: (choice: number) => Record<string, unknown>;
}

export interface Step {
  readonly delta: Record<string, unknown>;
  /** The text it adds to the choice. */
  readonly text: string;
}

export function voiceOf(ask: Ask, attemptId: string, manner: Manner): Voice {
  if (ask.toolCalls.length > 0) return callingTools(ask.toolCalls, attemptId);
  if (ask.reply !== null) return saying(wordsOf(ask.reply));
  if (ask.schema !== undefined) {
    return saying(slices(JSON.stringify(exampleOf(ask.schema, attemptId)), 8));
  }
  if (manner.continueWithOverlap !== null && ask.prefix !== null) {
    return saying(wordsOf(continuation(ask.prefix, manner, manner.continueWithOverlap)));
  }
  if (manner.repeats !== null && ask.cutOff !== null) {
    const { characters, blank } = manner.repeats;
    const repeated = ask.cutOff.slice(-characters).replace(/\s+/g, blank);
    return saying(wordsOf(repeated + continuation(ask.cutOff, manner, 0)));
  }
  return talking(manner);
}

/** As many words as are asked for. */
function talking(manner: Manner): Voice {
  const said = (choice: number) => textUpTo(manner, choice);
  return {
    count: manner.tokens,
    finishReason: "stop",
    step: (index, choice) => content(manner.words(index, choice)),
    message: (choice) => ({ role: "assistant", content: said(choice), refusal: null }),
  };
}

/** Exactly these pieces, on every choice. */
function saying(pieces: readonly string[]): Voice {
  return {
    count: pieces.length,
    finishReason: "stop",
    step(index) {
      const piece = pieces[index];
      return piece === undefined ? null : content(piece);
    },
    message: () => ({ role: "assistant", content: pieces.join(""), refusal: null }),
  };
}

/** Each call opens with its name and then brings its arguments in fragments. */
function callingTools(tools: readonly Tool[], attemptId: string): Voice {
  const calls = tools.map(({ name, parameters }, index) => ({
    id: `call_${attemptId}_${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify(exampleOf(parameters, attemptId)) },
  }));
  const deltas = calls.flatMap((call, index) => [
    { index, ...call, function: { name: call.function.name, arguments: "" } },
    ...slices(call.function.arguments, 7).map((fragment) => ({
      index,
      function: { arguments: fragment },
    })),
  ]);
  return {
    count: deltas.length,
    finishReason: "tool_calls",
    step(index) {
      const delta = deltas[index];
      return delta === undefined ? null : { delta: { tool_calls: [delta] }, text: "" };
    },
    message: () => ({ role: "assistant", content: null, refusal: null, tool_calls: calls }),
  };
}

/** The rest of our own text where the prefix is its beginning; else our own text after the prefix. */
function continuation(prefix: string, manner: Manner, overlap: number): string {
  const own = textUpTo(manner, 0);
  const rest = own.startsWith(prefix) ? own.slice(prefix.length) : ` ${own}`;
  return (overlap === 0 ? "" : prefix.slice(-overlap)) + rest;
}

function textUpTo(manner: Manner, choice: number): string {
  return Array.from({ length: manner.tokens }, (_, index) => manner.words(index, choice)).join("");
}

function content(text: string): Step {
  return { delta: { content: text }, text };
}

function wordsOf(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

function slices(text: string, length: number): readonly string[] {
  return text.match(new RegExp(`.{1,${length}}`, "gsu")) ?? [];
}
