import { plural, shown } from "../shown-text.ts";

/** A scenario as the admin API shows it. */
export interface ShownLabScenario {
  readonly name: string;
  readonly title: string;
  readonly fault: string;
  readonly expected: string;
  readonly modes: readonly string[];
}

/** A run as the admin API shows it. */
export interface ShownLabRun {
  readonly id: string;
  readonly calls: number;
  readonly state: "running" | "ended" | "stopped";
  readonly as_promised: boolean | null;
  readonly broken: readonly string[];
  readonly channels: readonly ShownLabChannel[];
  readonly results: readonly ShownLabCall[];
}

export interface ShownLabChannel {
  readonly name: string;
  readonly asked: number;
  readonly breaker: { readonly state: string; readonly cause: string; readonly for_ms: number } | null;
}

export interface ShownLabCall {
  readonly number: number;
  readonly took_ms: number;
  readonly attempts: readonly {
    readonly channel: string;
    readonly outcome: string;
    readonly error: string | null;
    readonly hedge: boolean;
  }[];
  readonly client: {
    readonly sees: "answer" | "error" | "interruption" | "wrong";
    readonly status: number | null;
    readonly code: string | null;
    readonly words: number;
  } | null;
}

/** A call that has ended: what its client saw, how long it took, and who was asked. */
export function resultLine({ number, took_ms, attempts, client }: ShownLabCall): string {
  const asked = attempts.map(({ channel, outcome, error, hedge }) => {
    const how = outcome === "failed" ? (error ?? outcome) : outcome;
    return `${channel} ${hedge ? "(hedge) " : ""}${how}`;
  });
  const parts = [
    String(number).padStart(4),
    seenText(client).padEnd(44),
    `${took_ms} ms`.padStart(9),
    asked.length === 0 ? "nobody was asked" : asked.join(" > "),
  ];
  return shown(parts.join("  "));
}

function seenText(client: ShownLabCall["client"]): string {
  if (client === null) return "running";
  const code = `${client.status ?? "-"} ${client.code ?? ""}`.trim();
  switch (client.sees) {
    case "answer":
      return `answer, ${plural(client.words, "word")}`;
    case "error":
      return code;
    case "interruption":
      return `${plural(client.words, "word")}, then ${client.code ?? "an error"}`;
    case "wrong":
      return `${plural(client.words, "word")} that are not the answer`;
  }
}

export function channelLine({ name, asked, breaker }: ShownLabChannel): string {
  const state =
    breaker === null
      ? "may be asked"
      : `${breaker.state.replace("_", "-")} (${breaker.cause}), again in ${Math.ceil(breaker.for_ms / 1000)} s`;
  return shown(`${name}: asked ${plural(asked, "time")}, ${state}`);
}

export function progressLine({ state, calls, results }: ShownLabRun): string | null {
  const ended = results.filter(({ client }) => client !== null).length;
  return state === "running" ? `${ended} of ${calls} calls have ended` : null;
}

export function verdictText({ as_promised, broken }: ShownLabRun, { expected }: ShownLabScenario): string {
  if (as_promised === true) return `As promised: ${expected}`;
  if (as_promised === null) return "The run was ended before all calls were made.";
  return ["Not as promised.", ...broken.map((sentence) => `  ${shown(sentence)}`), `Expected: ${expected}`].join("\n");
}
