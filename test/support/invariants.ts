import { existsSync } from "node:fs";
import { join } from "node:path";
import type { AttemptReceipt, Receipt } from "../../src/usage/receipt.ts";
import type { Chaos } from "./chaos.ts";
import type { Attempt } from "./chaos/ledger.ts";
import type { ChatReply } from "./chat.ts";
import { waitedMs } from "./cpu.ts";
import { eventually } from "./eventually.ts";
import type { Gateway, LogLine } from "./gateway.ts";
import { heldUpMs } from "./held-up.ts";
import { Receipts } from "./receipts.ts";
import { faultOfAttempt, faultsOfSums, matched, witnessed } from "./receipt-truth.ts";
import { overspentRetries } from "./retry-share.ts";
import { statedMs, timersOf, type Timers } from "./stated-time.ts";
import { slowed } from "./slowed.ts";

/** What must hold after every fault. Throws with all that does not. */
export async function checkInvariants(scene: Scene): Promise<void> {
  const checks = [textOfOneAttempt, nothingLeftOpen, stillAlive, noSecretOut, fewAttempts];
  const broken: string[] = [];
  const hold = async (check: (scene: Scene) => Promise<void>): Promise<void> => {
    await check(scene).catch((error: Error) => broken.push(error.message));
  };
  await hold(oneAccessLinePerCall);
  // Receipts come into the store while the others are looked at.
  const written = receiptsOf(scene);
  for (const check of checks) await hold(check);
  const receipts = await written;
  for (const check of [oneReceiptPerCall, receiptsTellTheTruth, retriesWithinBudget, endsInTime])
    await hold(async () => check(scene, receipts));
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
  /** Who stands behind each channel, by the channel's name. Default: the upstream of that name, with the timers of the defaults. */
  readonly channels?: ReadonlyMap<string, SceneChannel>;
  /** Every model costs what `price` in `receipts.ts` says. Default: no price is known. */
  readonly isPriced?: boolean;
  /** How much longer a call may take than its upstreams and timers do. Default 1 s. */
  readonly graceMs?: number;
  /** A text continued by a second attempt is no prefix of one. Default true. */
  readonly oneAttemptSpeaks?: boolean;
}

export interface SceneChannel {
  readonly upstream: Chaos;
  readonly timers: Timers;
}

/** How things stood before the fault. */
export interface Baseline {
  readonly pid: number;
  /** On the clock of `performance.now()`. */
  readonly atMs: number;
  readonly fds: number | null;
  /** How long the gateway had not been let run by others on the machine. */
  readonly waitedMs?: number;
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
    atMs: performance.now(),
    fds: gateway.fds(),
    waitedMs: waitedMs(gateway.pid) ?? 0,
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

/** What was kept of the calls, as soon as there is something of each for which anybody was asked; null where nothing is kept. */
async function receiptsOf(scene: Scene): Promise<Written | null> {
  const { gateway, baseline } = scene;
  if (!existsSync(join(gateway.directory, "data", "sluice.db"))) return null;
  const ids = linesOf(scene).flatMap((line) => (Number(line["attempts"]) > 0 ? [String(line["id"])] : []));
  await using store = await Receipts.open(gateway.directory);
  const missing = [...ids];
  const areThere = async (): Promise<boolean> => {
    while (missing.length > 0 && (await store.storage.receipts.find(missing.at(-1)!)) !== null) missing.pop();
    return missing.length === 0;
  };
  await eventually("a receipt per call", areThere, Math.max(receiptsWithinMs, scene.withinMs ?? 0)).catch(() => {});
  return Map.groupBy(await allOf(store, gateway, baseline, missing), ({ requestId }) => requestId);
}

/** What was kept since the baseline. Where some is missing, a new connection looks: this one may be what does not see it. */
async function allOf(store: Receipts, gateway: Gateway, baseline: Baseline, missing: readonly string[]): Promise<readonly Receipt[]> {
  if (missing.length === 0) return store.all(baseline.wallMs ?? null);
  await using fresh = await Receipts.open(gateway.directory);
  const all = await fresh.all(baseline.wallMs ?? null);
  const seen = missing.filter((id) => all.some(({ requestId }) => requestId === id));
  if (seen.length > 0) console.warn(`receipts that only a new connection to the store has seen: ${seen.join(", ")}`);
  return all;
}

/** By request id. */
type Written = ReadonlyMap<string, readonly Receipt[]>;

/** Receipts are carried into the store soon after the call, not during it. */
const receiptsWithinMs = 10_000;

/** U3: one receipt for each call for which anybody was asked, which says what the access line says, and never two for any. */
function oneReceiptPerCall(scene: Scene, receipts: Written | null): void {
  if (receipts === null) return;
  for (const line of linesOf(scene)) {
    const id = String(line["id"]);
    const own = receipts.get(id) ?? [];
    demand(own.length <= 1, `U3: request ${id} has ${own.length} receipts`);
    if (own.length === 0)
      demand(
        Number(line["attempts"]) === 0,
        `U3: request ${id} made ${String(line["attempts"])} attempts, and has no receipt${complaints(scene)}`,
      );
    for (const { attempts, state, status } of own) {
      const said = { attempts: attempts.length, state, status };
      const logged = { attempts: line["attempts"], state: line["state"], status: line["status"] };
      demand(Bun.deepEquals(said, logged), `U3: the receipt of ${id} says ${JSON.stringify(said)}, its line ${JSON.stringify(logged)}`);
    }
  }
}

/** The last of what the gateway complained about, which may be why. */
function complaints({ gateway }: Scene): string {
  const said = gateway.logs.filter((line) => line["level"] === "warn" || line["level"] === "error").slice(-3);
  return said.map((line) => `; the gateway said ${JSON.stringify(line)}`).join("");
}

/** U3: receipts say of each attempt what its upstream knows: that it was made, how it went, how many tokens, and what they cost. */
function receiptsTellTheTruth(scene: Scene, receipts: Written | null): void {
  if (receipts === null) return;
  const own = linesOf(scene).flatMap((line) => receipts.get(String(line["id"])) ?? []);
  const deaf = heldUpMs(scene.baseline.atMs) > deafMs;
  const wrong: string[] = [];
  const faultIn = ([said, truth]: readonly [AttemptReceipt, Attempt]): string[] => {
    const fault = faultOfAttempt(said, truth, scene.isPriced ?? false);
    return fault === null ? [] : [`${truth.behaviour}: ${fault}`];
  };
  for (const receipt of own) for (const fault of faultsOfSums(receipt)) wrong.push(`${receipt.requestId}: ${fault}`);
  for (const upstream of scene.upstreams) {
    const { ledger } = upstream;
    const at = (receipt: Receipt) => receipt.attempts.filter(({ channel }) => upstreamOf(scene, channel) === upstream);
    const seen = ledger.chats.slice(scene.baseline.upstreams.get(upstream)?.chats ?? 0);
    const unread = deaf ? Infinity : ledger.unreadSince(scene.baseline.atMs);
    const sums = matched(own.flatMap(at), witnessed(ledger, seen), unread);
    if (typeof sums === "string") wrong.push(`${upstream.name}, over all calls: ${sums}`);
    // A request of which only a part was read does not tell whose it is.
    if (seen.some(({ call }) => call === null)) continue;
    for (const reply of scene.replies) {
      const receipt = receipts.get(reply.requestId ?? reply.askedAs ?? "")?.[0];
      if (reply.call === null || receipt === undefined) continue;
      const pairs = matched(at(receipt), witnessed(ledger, ledger.ofCall(reply.call)), unread);
      const faults = typeof pairs === "string" ? [pairs] : receipt.operation === "chat" ? pairs.flatMap(faultIn) : [];
      wrong.push(...faults.map((fault) => `${nameOf(reply)} at ${upstream.name}: ${fault}`));
    }
  }
  demand(wrong.length === 0, `U3: receipts and upstreams disagree: ${wrong.slice(0, 10).join("; ")}`);
}

/** Upstreams that could not act for so long may have missed any request that was taken back in time, also over a connection they knew. */
const deafMs = 100;

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
  const { text } = gateway;
  const outcry = outcries.exec(text.slice(unsearchedFrom(gateway, outcries.source, 40)));
  demand(outcry === null, `U6: the gateway said: ${outcry === null ? "" : lineAround(outcry.input, outcry.index)}`);
}

const outcries = /unhandled ?rejection|uncaught ?exception|panic\(|Segmentation fault/i;

/**
 * From where the output has not been searched for this before, and a little earlier: what is looked for may have come in pieces. Output
 * is only added to, and to search all of it after each fault would take more time than the faults.
 */
function unsearchedFrom(gateway: Gateway, wanted: string, overlap: number): number {
  const searched = searchedTo.get(gateway) ?? new Map<string, number>();
  searchedTo.set(gateway, searched);
  const from = Math.max(0, (searched.get(wanted) ?? 0) - overlap);
  searched.set(wanted, gateway.text.length);
  return from;
}

/** How much of the output was searched, for what. */
const searchedTo = new WeakMap<Gateway, Map<string, number>>();

/** U7: no secret in the output or in any byte of an answer. */
export async function noSecretOut(scene: Scene): Promise<void> {
  const { text: output } = scene.gateway;
  // As bytes: most of an answer may be audio, and to make texts of it takes longer than to search it.
  const answers = scene.replies.map((reply) => [`the answer to ${nameOf(reply)}`, reply.response.raw] as const);
  const places = [...answers, ...(scene.outputs ?? []).map((other, index) => [`output ${index}`, other] as const)];
  for (const secret of scene.secrets ?? []) {
    const from = unsearchedFrom(scene.gateway, secret, secret.length);
    for (const [place, said, at] of [
      ["the gateway's output", output, output.indexOf(secret, from)] as const,
      ...places.map(([where, text]) => [where, text, text.indexOf(secret)] as const),
    ]) {
      if (at >= 0) throw new Error(`U7: ${secret.slice(0, 6)}… stands in ${place}: ${lineAround(said.toString("latin1"), at)}`);
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

/** U8: retries stay within the budget that the calls of a model have for them together. */
function retriesWithinBudget(scene: Scene, receipts: Written | null): void {
  const own = linesOf(scene).flatMap((line) => receipts?.get(String(line["id"])) ?? []);
  const overspent = overspentRetries(own);
  demand(overspent === null, `U8: ${overspent}`);
}

/** U9: no call takes longer than its upstreams, the timers that were set for them and the stated waits together: a tenth and a second more. */
function endsInTime(scene: Scene, receipts: Written | null): void {
  const { graceMs = 1_000 } = scene;
  // What the machine did to either of us is nobody's delay.
  const gatewayHeldUp = (waitedMs(scene.gateway.pid) ?? 0) - (scene.baseline.waitedMs ?? 0);
  const heldUp = heldUpMs(scene.baseline.atMs) + gatewayHeldUp;
  const timersFor = (channel: string) => scene.channels?.get(channel)?.timers ?? timersOf({});
  for (const reply of scene.replies) {
    const { response, call } = reply;
    if (response.aborted || response.unhurried || call === null || response.timing.endMs === null) continue;
    const truths = scene.upstreams.flatMap(({ ledger }) => ledger.ofCall(call));
    const stated = statedMs(receipts?.get(reply.requestId ?? reply.askedAs ?? "")?.[0], truths, timersFor);
    const took = response.timing.endMs;
    const ownMs = took - stated * 1.1 - heldUp;
    demand(
      ownMs <= graceMs || ownMs <= slowed(graceMs),
      `U9: ${nameOf(reply)} took ${Math.round(took)} ms, where ${Math.round(stated)} are stated`,
    );
  }
}

function upstreamOf({ channels, upstreams }: Scene, channel: string): Chaos | undefined {
  return channels === undefined ? upstreams.find(({ name }) => name === channel) : channels.get(channel)?.upstream;
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
