import { json, plural, shown } from "../shown-text.ts";

/** One thing that was looked at. */
export interface Diagnosis {
  /** What was looked at, as a word that programs can rely on. */
  readonly check: string;
  /** `fail`: the gateway, or a part of it, does not work like this. */
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do about it; null if nothing has to be done. */
  readonly fix: string | null;
}

export function fine(check: string, message: string): Diagnosis {
  return { check, status: "ok", message, fix: null };
}

export function doubtful(check: string, message: string, fix: string): Diagnosis {
  return { check, status: "warn", message, fix };
}

export function failed(check: string, message: string, fix: string): Diagnosis {
  return { check, status: "fail", message, fix };
}

/** The whole report, and the exit code. */
export function renderDiagnoses(all: readonly Diagnosis[], asJson: boolean): { readonly text: string; readonly exitCode: 0 | 1 } {
  const of = (status: Diagnosis["status"]): number => all.filter((one) => one.status === status).length;
  const exitCode = of("fail") > 0 ? 1 : 0;
  if (asJson) return { text: json({ ok: exitCode === 0, checks: all }), exitCode };
  const verdict =
    of("fail") + of("warn") === 0 ? "Nothing is wrong." : `${plural(of("fail"), "problem")} to fix, ${plural(of("warn"), "warning")}.`;
  return { text: [...all.flatMap(lines), "", verdict].join("\n"), exitCode };
}

function lines({ check, status, message, fix }: Diagnosis): readonly string[] {
  const head = `${status.padEnd(4)}  ${check.padEnd(checkWidth)}  `;
  const indent = " ".repeat(head.length);
  const inner = [...message.split("\n"), ...(fix === null ? [] : fix.split("\n").map((line) => `→ ${line}`))].map(shown);
  return inner.map((line, at) => `${at === 0 ? head : indent}${line}`);
}

const checkWidth = 13;
