import type { LabRunView } from "../../../admin/views/lab-view.ts";
import { duration } from "../../core/format.ts";
import type { Tone } from "../../core/tones.ts";

export interface TonedText {
  readonly tone: Tone | "accent";
  readonly text: string;
}

/** What the client of a call saw. */
export function seenBy({ client }: Pick<LabRunView["results"][number], "client">): TonedText {
  if (client === null) return { tone: "accent", text: "running" };
  const { sees, status, code, words, retry_after_s } = client;
  const error = `${status ?? ""} ${code ?? ""}`.trim().replaceAll("_", " ");
  switch (sees) {
    case "answer":
      return { tone: "good", text: `the whole answer, ${words} words` };
    case "error":
      return { tone: "warn", text: retry_after_s === null ? error : `${error}, again in ${retry_after_s} s` };
    case "interruption":
      return { tone: "warn", text: `${words} words, then ${(code ?? "an error").replaceAll("_", " ")}` };
    case "wrong":
      return { tone: "bad", text: `${words} words that are not the answer` };
  }
}

/** Whether a channel may be asked. */
export function breakerOf({ breaker }: Pick<LabRunView["channels"][number], "breaker">): TonedText {
  if (breaker === null) return { tone: "good", text: "may be asked" };
  const isOpen = breaker.state === "open";
  const cause = breaker.cause.replaceAll("_", " ");
  return {
    tone: isOpen ? "bad" : "warn",
    text: isOpen ? `cools down: ${cause}, another ${duration(breaker.for_ms)}` : `is probed: ${cause}`,
  };
}

export function progressOf({ state, calls, results, as_promised }: LabRunView): TonedText {
  const ended = results.filter(({ client }) => client !== null).length;
  if (state === "running") return { tone: "accent", text: `${ended} of ${calls} calls` };
  if (as_promised === null) return { tone: "", text: "ended early" };
  return as_promised ? { tone: "good", text: "as promised" } : { tone: "bad", text: "not as promised" };
}
