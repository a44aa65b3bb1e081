import { proofResults, type Finding, type ProofResult } from "./findings.ts";
import type { ProductPromise } from "./promises.ts";

/** Where and when the commands were run. It holds no name of a host or a user, and no path. */
export interface Surroundings {
  readonly date: Date;
  readonly commit: string;
  readonly hasChanges: boolean;
  readonly processors: string;
  readonly memory: string;
  readonly system: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly seconds: number;
  readonly remarks: readonly string[];
}

export interface Proven {
  readonly promise: ProductPromise;
  readonly finding: Finding;
}

export function proofPage(all: readonly Proven[], surroundings: Surroundings): string {
  const { date, commit, hasChanges, processors, memory, system, versions, seconds, remarks } = surroundings;
  const facts = [
    ["date", `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`],
    ["commit", `${commit}${hasChanges ? ", with changes that were not committed" : ""}`],
    ["processors", processors],
    ["memory", memory],
    ["system", system],
    [
      "versions",
      Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(", "),
    ],
    ["took", duration(seconds)],
  ];
  const lines = all.map(({ promise, finding: { result, figure, seconds: took } }) =>
    result === "not run" ? rowNotRun(promise) : row([promise.id, result, figure, `\`${promise.commandText}\``, duration(took)]),
  );
  return [
    "# Proof",
    "",
    "<!-- Written by `npm run prove`. -->",
    "",
    "What came of running the commands of [promises.md](promises.md), the last time that `npm run prove` wrote this page. A figure stands beside",
    "its bar. What takes a server or a download that was missing, or a machine that had nothing else to do, is not shown here, and says so.",
    "",
    row(["", ""]),
    "|---|---|",
    ...facts.map(row),
    "",
    `${countsOf(all)}.`,
    "",
    row(["id", "result", "figure", "command", "took"]),
    tableLine,
    ...lines,
    ...(remarks.length === 0 ? [] : ["", "## What the bench remarked", "", ...remarks.map((remark) => `- ${remark}`)]),
    "",
  ].join("\n");
}

/** Such as `41 shown, 2 not shown here`. */
export function countsOf(all: readonly Proven[]): string {
  return countsIn(all.map(({ finding }) => finding.result));
}

function countsIn(results: readonly ProofResult[]): string {
  return proofResults
    .map((result) => ({ result, count: results.filter((one) => one === result).length }))
    .filter(({ count }) => count > 0)
    .map(({ result, count }) => `${count} ${result}`)
    .join(", ");
}

/** The page with a row for each promise: of one that was made since it was written, that it was not run. A promise that is gone loses its row. */
export function withRows(page: string, promises: readonly ProductPromise[]): string {
  const lines = page.split("\n");
  const from = lines.indexOf(tableLine) + 1;
  const until = lines.indexOf("", from);
  const before = lines.slice(from, until);
  const after = promises.map((promise) => before.find((line) => isRowOf(line, promise)) ?? rowNotRun(promise));
  const written = [...lines.slice(0, from), ...after, ...lines.slice(until)].join("\n");
  return written.replace(/^\d+ (?:shown|not|fails).*\.$/m, `${countsIn(readProof(written).rows.map(({ result }) => result))}.`);
}

/** Not one of the same id whose command was another: what that showed is another promise. */
function isRowOf(line: string, { id, commandText }: ProductPromise): boolean {
  return line.startsWith(`| ${id} | `) && line.includes(` | \`${commandText}\` | `);
}

function rowNotRun({ id, commandText }: ProductPromise): string {
  return row([id, "not run", "", `\`${commandText}\``, ""]);
}

const tableLine = "|---|---|---|---|---|";

export interface ProofRow {
  readonly id: string;
  readonly result: ProofResult;
  readonly figure: string;
}

/** What a page says, or what is wrong with its form. */
export function readProof(page: string): { readonly rows: readonly ProofRow[]; readonly problems: readonly string[] } {
  const problems: string[] = [];
  for (const fact of ["date", "commit", "processors", "memory", "system", "versions", "took"]) {
    if (!new RegExp(`^\\| ${fact} \\| \\S.* \\|$`, "m").test(page)) problems.push(`it does not tell the ${fact}`);
  }
  const rows: ProofRow[] = [];
  for (const line of page.split("\n")) {
    const cells = line
      .slice(1, -1)
      .split(" | ")
      .map((cell) => cell.trim());
    const [id = "", result = "", figure = ""] = cells;
    if (!line.startsWith("| ") || cells.length !== 5 || id === "id") continue;
    const known = proofResults.find((one) => one === result);
    if (known === undefined) problems.push(`${id}: "${result}" is no result`);
    else if (known !== "not run" && figure === "") problems.push(`${id}: there is no figure`);
    else rows.push({ id, result: known, figure });
  }
  return { rows, problems };
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll(/\s*\n\s*/g, " ").replaceAll("|", "/")).join(" | ")} |`;
}

export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")} min`;
}
