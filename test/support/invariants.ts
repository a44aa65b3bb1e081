import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Receipt } from "../../src/usage/receipt.ts";
import type { Chaos } from "./chaos.ts";
import type { Attempt } from "./chaos/ledger.ts";
import type { ChatReply } from "./chat.ts";
import { eventually } from "./eventually.ts";
import type { Gateway, LogLine } from "./gateway.ts";
import { Receipts } from "./receipts.ts";

/** What must hold after every fault. Throws with all that does not. */
export async function checkInvariants(scene: Scene): Promise<void> {
  const checks = [textOfOneAttempt, nothingLeftOpen, stillAlive, noSecretOut, fewAttempts];
  const broken: string[] = [];
  const hold = async (check: (scene: Scene) => Promise<void>): Promise<void> => {
    await check(scene).catch((error: Error) => broken.push(error.message));
  };
  await hold(oneAccessLinePerCall);
  // Receipts come into the store while the others are looked at.
  const written = hold(oneReceiptPerCall);
  for (const check of checks) await hold(check);
  await written;
  if (broken.length > 0) throw new Error(`broken invariants:\n- ${broken.join("\n- ")}`);
}

export interface Scene {
  readonly gateway: Gateway;
  readonly upstreams: readonly Chaos[];
  /** Every answer since the baseline was taken. */
  readonly replies: readonly ChatReply[];
  readonly baseline: Baseline;
  /** Calls since the baseline, where some have no reply. Default: as many as replies. */
  readonly calls?: number;
  /** Keys and canaries that must not leave the gateway. */
  readonly secrets?: readonly string[];
  /** Other output in which no secret may stand: metrics, files. */
  readonly outputs?: readonly string[];
  /** When a client left, on the clock of `performance.now()`: no upstream connection may be opened after it. */
  readonly abortedAt?: number;
  /** Default 3. */
  readonly attemptsMax?: number;
  /** How many descriptors and connections may differ. Default 2. */
  readonly tolerance?: number;
  /** Default 5 s. */
  readonly withinMs?: number;
  /** A text continued by a second attempt is no prefix of one. Default true. */
  readonly oneAttemptSpeaks?: boolean;
}

/** How things stood before the fault. */
export interface Baseline {
  readonly pid: number;
  readonly fds: number | null;
  readonly accessLines: number;
  /** Calls that end later may have begun shortly before. */
  readonly wallMs?: number;
  readonly upstreams: ReadonlyMap<Chaos, { readonly open: number; readonly chats: number }>;
}

/** Connections that wait in a pool are no leak: they are closed first, here and when the invariants are checked. */
export async function takeBaseline(gateway: Gateway, upstreams: readonly Chaos[]): Promise<Baseline> {
  for (const upstream of upstreams) {
    const { ledger } = upstream;
    upstream.closeIdleConnections();
    const onlyBusy = () => ledger.connectionsOpen <= ledger.attempts.filter(({ endedBy }) => endedBy === null).length;
    await eventually("pooled connections are closed", onlyBusy, 1_000).catch(() => {});
  }
  return {
    pid: gateway.pid,
    fds: gateway.fds(),
    accessLines: gateway.accessLines().length,
    wallMs: Date.now() - overlapMs,
    upstreams: new Map(
      upstreams.map((upstream) => {
        const { connectionsOpen, chats } = upstream.ledger;
        return [upstream, { open: connectionsOpen, chats: chats.length }] as const;
      }),
    ),
  };
}

const overlapMs = 10_000;

/** U1: exactly one line in the access log for each call. */
export async function oneAccessLinePerCall(scene: Scene): Promise<void> {
  const calls = scene.calls ?? scene.replies.length;
  await eventually("an access line per call", () => linesOf(scene).length >= calls, scene.withinMs).catch(() => {});
  const ids = linesOf(scene).map((line) => String(line["id"]));
  demand(ids.length === calls, `U1: ${calls} calls left ${ids.length} access lines`);
  demand(new Set(ids).size === ids.length, `U1: a request id has two access lines: ${ids.join(", ")}`);
  for (const { requestId } of scene.replies) {
    if (requestId === null) continue;
    demand(ids.includes(requestId), `U1: request ${requestId} has no access line`);
  }
}

/** U2: what a client got is the beginning of what one attempt of its own call sent; all of it, if it looks whole. */
export async function textOfOneAttempt(scene: Scene): Promise<void> {
  if (scene.oneAttemptSpeaks === false) return;
  for (const reply of scene.replies) {
    const attempts = attemptsOf(scene, reply);
    for (const [choice, content] of reply.contents.entries()) {
      const speakers = attempts.filter((attempt) => spoken(attempt, choice).startsWith(content));
      const sent = attempts.map((attempt) => `${attempt.id} sent ${quote(spoken(attempt, choice))}`);
      demand(
        speakers.length > 0,
        `U2: ${nameOf(reply)} got ${quote(content)}, the beginning of no attempt; ${sent.join("; ") || "nobody sent any"}`,
      );
      const whole = speakers.some((attempt) => spoken(attempt, choice) === content && attempt.endedBy !== "fault");
      demand(whole || !looksWhole(reply), `U2: ${nameOf(reply)} got ${quote(content)} as if it were whole; ${sent.join("; ")}`);
    }
  }
}

/** U3: one receipt for each call for which anybody was asked, with all of its attempts, and never two for any. */
export async function oneReceiptPerCall(scene: Scene): Promise<void> {
  const { gateway, baseline } = scene;
  if (!existsSync(join(gateway.directory, "data", "sluice.db"))) return;
  const lines = new Map(linesOf(scene).map((line) => [String(line["id"]), Number(line["attempts"])]));
  const asked = [...lines].filter(([, attempts]) => attempts > 0);
  await using store = await Receipts.open(gateway.directory);
  let receipts = new Map<string, readonly Receipt[]>();
  const areThere = async (): Promise<boolean> => {
    receipts = Map.groupBy(await store.all(baseline.wallMs ?? null), ({ requestId }) => requestId);
    return asked.every(([id]) => receipts.has(id));
  };
  await eventually("a receipt per call", areThere, receiptsWithinMs).catch(() => {});
  for (const id of lines.keys()) {
    const count = receipts.get(id)?.length ?? 0;
    demand(count <= 1, `U3: request ${id} has ${count} receipts`);
  }
  for (const [id, attempts] of asked) {
    const own = receipts.get(id)?.[0]?.attempts.length;
    demand(own === attempts, `U3: request ${id} made ${attempts} attempts, and its receipt has ${own ?? "not been found"}`);
  }
}

/** Receipts are carried into the store soon after the call, not during it. */
const receiptsWithinMs = 2_000;

/** U4: descriptors and connections are back where they were, and nobody was dialled for a client that had left. */
export async function nothingLeftOpen(scene: Scene): Promise<void> {
  const { gateway, upstreams, baseline, tolerance = 2, withinMs = 5_000 } = scene;
  const settled = () => {
    for (const upstream of upstreams) upstream.closeIdleConnections();
    const fdsMore = (gateway.fds() ?? 0) - (baseline.fds ?? 0);
    return fdsMore <= tolerance && upstreams.every((upstream) => openMore(scene, upstream) <= tolerance);
  };
  await eventually("descriptors back", settled, withinMs).catch(() => {
    const connections = upstreams.map((upstream) => `${openMore(scene, upstream)} more connections to ${upstream.name}`);
    const fds = `${baseline.fds} descriptors before and ${gateway.fds()} after`;
    throw new Error(`U4: after ${withinMs} ms still ${fds}; ${connections.join(", ")}`);
  });
  const { abortedAt } = scene;
  if (abortedAt === undefined) return;
  for (const upstream of upstreams) {
    const late = upstream.ledger.connections.filter(({ acceptedAt }) => acceptedAt > abortedAt);
    demand(late.length === 0, `U4: ${late.length} connections to ${upstream.name} after the abort`);
  }
}

/** U6: the same process, and it never lost its composure. */
export async function stillAlive({ gateway, baseline }: Scene): Promise<void> {
  demand(gateway.running && gateway.pid === baseline.pid, `U6: process ${baseline.pid} is gone`);
  const bug = gateway.logs.find((line) => line["event"] === "bug");
  demand(bug === undefined, `U6: the gateway logged a bug: ${JSON.stringify(bug)}`);
  const outcry = outcries.exec(gateway.text);
  demand(outcry === null, `U6: the gateway said: ${lineAround(gateway.text, outcry?.index ?? 0)}`);
}

const outcries = /unhandled ?rejection|uncaught ?exception|panic\(|Segmentation fault/i;

/** U7: no secret in the output or in any byte of an answer. */
export async function noSecretOut(scene: Scene): Promise<void> {
  const places: (readonly [string, string])[] = [
    ["the gateway's output", scene.gateway.text],
    ...scene.replies.map((reply) => [`the answer to ${nameOf(reply)}`, Buffer.from(reply.response.raw).toString()] as const),
    ...(scene.outputs ?? []).map((output, index) => [`output ${index}`, output] as const),
  ];
  for (const secret of scene.secrets ?? []) {
    for (const [place, text] of places) {
      const at = text.indexOf(secret);
      demand(at < 0, `U7: ${secret.slice(0, 6)}… stands in ${place}: ${lineAround(text, at)}`);
    }
  }
}

/** U8: no call was tried more often than allowed, by the log's word and by the upstreams' own count. */
export async function fewAttempts(scene: Scene): Promise<void> {
  const { attemptsMax = 3 } = scene;
  for (const line of linesOf(scene)) {
    const attempts = Number(line["attempts"] ?? 0);
    demand(attempts <= attemptsMax, `U8: request ${String(line["id"])} logged ${attempts} attempts`);
  }
  for (const reply of scene.replies) {
    if (reply.call === null) continue;
    const attempts = attemptsOf(scene, reply).map((attempt) => attempt.id);
    demand(attempts.length <= attemptsMax, `U8: ${nameOf(reply)} reached the upstreams ${attempts.length} times: ${attempts.join(", ")}`);
  }
}

function linesOf({ gateway, baseline }: Scene): readonly LogLine[] {
  return gateway.accessLines().slice(baseline.accessLines);
}

function attemptsOf(scene: Scene, reply: ChatReply): readonly Attempt[] {
  return scene.upstreams.flatMap((upstream) => {
    const { chats } = upstream.ledger;
    if (reply.call !== null) return chats.filter((attempt) => attempt.call === reply.call);
    return chats.slice(scene.baseline.upstreams.get(upstream)?.chats ?? 0);
  });
}

function openMore({ baseline }: Scene, upstream: Chaos): number {
  return upstream.ledger.connectionsOpen - (baseline.upstreams.get(upstream)?.open ?? 0);
}

function spoken(attempt: Attempt, choice: number): string {
  return (attempt.choicesSent[choice] ?? []).join("");
}

function looksWhole(reply: ChatReply): boolean {
  if (reply.status !== 200 || reply.error !== null || !reply.response.endedCleanly) return false;
  return reply.done || reply.events.length === 0;
}

function nameOf(reply: ChatReply): string {
  return reply.requestId ?? reply.call ?? "a call";
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

function lineAround(text: string, at: number): string {
  return text.slice(Math.max(0, at - 60), at + 120).replaceAll("\n", "⏎");
}

function demand(holds: boolean, message: string): void {
  if (!holds) throw new Error(message);
}
