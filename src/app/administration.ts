import type {
  ExplainRequest,
  Explained,
  ExplainedRefusal,
  GatewayHealth,
  PreviewRequest,
  RequestPreview,
  Services,
  SignInServices,
} from "../admin/services.ts";
import { isLoopback } from "../admin/binding.ts";
import { hashPassword } from "../admin/login/password.ts";
import { dialects } from "../dialects/index.ts";
import type { Candidate } from "../channels/channel.ts";
import { readRuntimeChannel } from "../config/runtime-channel.ts";
import type { ChannelSetting, Settings } from "../config/settings.ts";
import { daysUntil } from "../config/tls-files.ts";
import type { Durable } from "./durable.ts";
import { groupFrozen, groupMissing } from "../gateway/admission/frozen.ts";
import { dryRun, type Barrier } from "../gateway/dry-run.ts";
import type { ChannelLesson, ChannelStatus, ChannelTest } from "../manage/channel-context.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Ports } from "../gateway/ports.ts";
import { StorageError } from "../gateway/storage.ts";
import { forgetLessons, type LearnedFact } from "../gateway/upstream-state/lessons.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { clearCoolDowns, type AskedModels } from "../gateway/upstream-state/upstream-state.ts";
import { shownAs } from "../http/errors.ts";
import { forbiddenModel, forbiddenOperation, unknownModel } from "../http/request-errors.ts";
import type { ChainProblem } from "../keys/group-tree.ts";
import type { Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import { budgetId } from "../limits/limit-id.ts";
import { hasBudgets, hasLimits, unlimited } from "../limits/limits.ts";
import { budgetSpending, groupSpending, type BudgetSpending } from "../manage/key-spending.ts";
import { OwnBudgets } from "../manage/problems/own-budgets.ts";
import { adminTokenPrefix, makeToken } from "../keys/token.ts";
import type { CallRequest } from "../operations/call-request.ts";
import { failure, isFailure } from "../operations/failure.ts";
import type { PlanRefusal } from "../routing/plan.ts";
import { previewedRequest, previewedSending } from "./request-preview.ts";
import { desiredResources } from "./resource-text.ts";
import { discoverModels } from "./discovery/discover.ts";
import type { Price } from "../usage/price.ts";
import { shippedPrices } from "../usage/shipped-prices.ts";

/** The parts of a running gateway that the admin API uses. */
export interface AdministrationParts {
  readonly durable: Durable;
  readonly gateway: Gateway;
  readonly settings: () => Settings;
  readonly channels: () => readonly ChannelSetting[];
  readonly snapshot: () => Snapshot;
  readonly priced: (provider: string | null, model: string) => boolean;
  readonly filePrices: () => readonly Price[];
  readonly runtimeRules: () => Parameters<typeof readRuntimeChannel>[2];
  /** A key with its groups; null if its group does not exist. */
  readonly attached: (key: Key) => Key | null;
  /** Why it has no groups. */
  readonly groupProblem: (key: Key) => ChainProblem | null;
  readonly degraded: () => readonly string[];
  readonly stopping: () => boolean;
  readonly version: string;
  readonly told: Services["told"];
  /** Where clients connect. */
  readonly url: () => string;
  readonly metrics: () => Promise<string>;
  readonly certificateExpiresMs: () => number | null;
  readonly configuration: Services["configuration"];
  readonly traffic: Services["traffic"];
  readonly budgets: Services["budgets"];
  readonly live: Services["live"];
  readonly lab: Services["lab"];
  readonly webhooks: Services["webhooks"];
  readonly backups: Services["backups"];
  readonly callChannel: Services["channels"]["call"];
  readonly signIn: SignInServices;
}

/** Connects the admin API to a running gateway. */
export function administration(parts: AdministrationParts): Services {
  const { durable } = parts;
  const randomBytes = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));
  return {
    storage: durable.storage,
    reports: durable.reports,
    wallMs: durable.clock.wallMs,
    version: parts.version,
    told: parts.told,
    hasLocalModels: () => parts.runtimeRules().localModels.length > 0,
    randomBytes,
    digest: durable.masterKey.digest,
    adminDigest: durable.masterKey.adminDigest,
    makeKeyToken: () => makeToken(randomBytes),
    makeAdminToken: () => makeToken(randomBytes, adminTokenPrefix),
    hashPassword,
    definedAt: (list, name) => parts.settings().places[list].get(name) ?? "the configuration",
    fileKeys: () => parts.settings().keys.map(({ key }) => key),
    fileGroups: () => parts.settings().groups,
    tokenIssuers: () => parts.settings().tokenIssuers.map(({ name }) => name),
    opensFileKey: (token) => parts.settings().keys.some((key) => key.token === token),
    prices: () => ({ shipped: shippedPrices(), file: parts.filePrices() }),
    health: () => Promise.resolve(healthOf(parts)),
    metrics: parts.metrics,
    signIn: parts.signIn,
    channels: {
      isInFile: (name) => parts.settings().channels.some((channel) => channel.name === name),
      check: (entry, secrets) => {
        const reading = readRuntimeChannel(entry, secrets, parts.runtimeRules());
        return Promise.resolve(reading.ok ? [] : reading.problems);
      },
      seal: (channel, secrets) => durable.channelSecrets.encrypt(channel, secrets),
      status: () => {
        const inFile = new Set(parts.settings().channels.map(({ name }) => name));
        const asked = parts.gateway.upstreams.askedModels();
        return parts.channels().map((channel) => statusOf(channel, inFile.has(channel.name) ? "file" : "store", asked, parts));
      },
      test: (name) => testOf(name, parts),
      call: parts.callChannel,
      forget: (name) => {
        durable.hint(name, forgetLessons, forgottenMs);
        return parts.gateway.upstreams.lessons.forget(name);
      },
      clear: (name) => {
        durable.hint(name, clearCoolDowns, forgottenMs);
        return parts.gateway.upstreams.clearChannel(name, parts.snapshot());
      },
    },
    nowMs: parts.gateway.ports.nowMs,
    configuration: parts.configuration,
    resources: {
      read: (file, text, variables) => desiredResources(file, { text, variables }),
      unseal: (channel, sealed) => {
        const opened = durable.channelSecrets.decrypt(channel, sealed);
        return "kind" in opened ? null : opened;
      },
    },
    traffic: parts.traffic,
    budgets: parts.budgets,
    ownBudgets: new OwnBudgets(),
    live: parts.live,
    lab: parts.lab,
    webhooks: parts.webhooks,
    backups: parts.backups,
    dataPlane: (path, init) => dataPlane(parts.url(), path, init),
    explain: async (asked) => (await explained(asked, askOf(asked), parts)).explained,
    preview: (asked) => preview(asked, parts),
  };
}

function healthOf({ url, durable, degraded, stopping, settings, certificateExpiresMs }: AdministrationParts): GatewayHealth {
  const { lag, state } = durable.status();
  const troubles = degraded();
  const { engine } = durable.database;
  const storeOk = !troubles.includes(engine);
  const { listen, admin, tls } = settings();
  const plainHosts = [...(tls === null ? [listen.host] : []), ...(tls?.admin === true ? [] : [admin?.host ?? "localhost"])];
  const expiresMs = certificateExpiresMs();
  return {
    url: url(),
    status: stopping() ? "stopping" : troubles.length > 0 ? "degraded" : "ok",
    store: { engine, ok: storeOk, detail: storeOk ? null : "the store cannot be reached; receipts wait in the journal" },
    state: { kind: state.kind, ok: state.ok, detail: state.ok ? null : "each process counts limits by itself" },
    journal: { waitingBytes: lag.bytes },
    insecureTransport: plainHosts.some((host) => !isLoopback(host)),
    certificate: expiresMs === null ? null : { expiresMs, daysLeft: daysUntil(expiresMs, durable.clock.wallMs()) },
  };
}

/** The listener may be bound to all addresses, or have a certificate for another name: it is our own, on this machine. */
async function dataPlane(url: string, path: string, init: Parameters<Services["dataPlane"]>[1]): Promise<Response | null> {
  const socket = url.startsWith("unix:") ? url.slice("unix:".length) : null;
  const address = socket === null ? url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:") : "http://localhost";
  try {
    return await fetch(address + path, {
      ...init,
      ...(socket === null ? {} : { unix: socket }),
      redirect: "manual",
      tls: { rejectUnauthorized: false },
    });
  } catch {
    return null;
  }
}

function statusOf(
  channel: ChannelSetting,
  source: ChannelStatus["source"],
  asked: AskedModels,
  { gateway, snapshot, durable }: AdministrationParts,
): ChannelStatus {
  const anyModel = channel.models.kind === "any";
  const { models, candidates } = anyModel
    ? { models: null, candidates: gateway.upstreams.knownModelCandidates(channel, asked) }
    : (offersOf(snapshot()).get(channel.name) ?? { models: [], candidates: [] });
  const nowMs = durable.clock.wallMs();
  const troubles = gateway.upstreams
    .openBreakers(candidates)
    .map(({ scope, state, cause, forMs }) => ({ scope, state, cause, untilMs: nowMs + forMs }));
  const open = candidates.some((candidate) => gateway.upstreams.admits(candidate));
  const idle = candidates.length === 0 && !anyModel;
  return {
    name: channel.name,
    source,
    provider: channel.provider,
    baseUrl: channel.address.baseUrl,
    tier: channel.tier,
    weight: channel.weight,
    tags: channel.tags,
    models,
    state: idle ? "idle" : candidates.length > 0 && !open ? "cooling" : troubles.length > 0 ? "impaired" : "ready",
    troubles,
    learned: lessonsOf(gateway.upstreams.lessons.ofChannel(channel.name), nowMs),
    running: gateway.upstreams.running(channel.name),
    concurrencyMax: channel.concurrencyMax,
  };
}

/** What a channel is asked with, by the models that clients name. */
interface ChannelOffer {
  readonly models: string[];
  readonly candidates: Candidate[];
}

/** By the names of channels, in one pass over the routes: with thousands of channels, a pass for each of them would take seconds. */
function offersOf(snapshot: Snapshot): ReadonlyMap<string, ChannelOffer> {
  const known = offers.get(snapshot);
  if (known !== undefined) return known;
  const made = new Map<string, ChannelOffer>();
  for (const [model, { tiers }] of snapshot.routes) {
    for (const candidate of tiers.flat()) {
      const { name } = candidate.deployment.channel;
      let offer = made.get(name);
      if (offer === undefined) made.set(name, (offer = { models: [], candidates: [] }));
      if (offer.models.at(-1) !== model) offer.models.push(model);
      offer.candidates.push(candidate);
    }
  }
  offers.set(snapshot, made);
  return made;
}

const offers = new WeakMap<Snapshot, ReadonlyMap<string, ChannelOffer>>();

/** Long enough to reach every process, even one that has lost the store for a moment. */
const forgottenMs = 60_000;

function lessonsOf(facts: readonly LearnedFact[], wallMs: number): readonly ChannelLesson[] {
  return facts.map(({ model, maxTokens, unsupported, forMs }) => ({ model, maxTokens, unsupported, untilMs: wallMs + Math.round(forMs) }));
}

/** Requests the list of models, which is free of charge. */
async function testOf(name: string, { channels, gateway }: AdministrationParts): Promise<ChannelTest | null> {
  const channel = channels().find((one) => one.name === name);
  if (channel === undefined) return null;
  const beganMs = performance.now();
  const outcome = await discoverModels(channel, dialects.get(channel.dialect), gateway.ports.send);
  const tookMs = Math.round(performance.now() - beganMs);
  if (!isFailure(outcome)) return { ok: true, status: 200, code: "ok", tookMs };
  return { ok: false, status: outcome.status, code: outcome.kind, tookMs };
}

/** What would be done with a request that a client sent, and what would be sent upstream. */
async function preview({ api, body, key }: PreviewRequest, parts: AdministrationParts): Promise<RequestPreview | ExplainedRefusal> {
  const ask = previewedRequest(api, body);
  if (isFailure(ask)) return shownAs(ask);
  const stream = "stream" in ask && ask.stream;
  const asked: ExplainRequest = { operation: ask.operation, model: ask.model, key, stream, promptTokens: null };
  const { explained: found, candidates } = await explained(asked, ask, parts);
  return { explained: found, sendings: candidates.map((candidate) => previewedSending(parts.gateway, ask, candidate, key?.id ?? "")) };
}

async function explained(
  asked: ExplainRequest,
  ask: CallRequest,
  parts: AdministrationParts,
): Promise<{ readonly explained: Explained; readonly candidates: readonly Candidate[] }> {
  const { gateway, snapshot } = parts;
  const { barriers, plan, outOfBounds, route } = dryRun(ask, asked.key, snapshot(), gateway.upstreams);
  const refusals = barriers.map((barrier) => refusalOf(barrier, asked, gateway.ports.asTyped));
  const attached = asked.key === null ? null : parts.attached(asked.key);
  const key = attached === null || asked.groups === undefined ? attached : withoutLimitsAbove(attached, asked.groups);
  const unknown = key === attached ? [] : ["A limit above your group may refuse this."];
  const sees = ({ id }: Group): boolean => asked.groups === undefined || asked.groups.has(id);
  const frozen = key?.chain?.frozen ?? null;
  const problem = asked.key !== null && key === null ? parts.groupProblem(asked.key) : null;
  if (problem !== null && "group" in problem && !sees(problem.group)) refusals.unshift(brokenAbove);
  else if (asked.key !== null && key === null) refusals.unshift(shownAs(groupMissing(problem)));
  else if (frozen !== null) refusals.unshift(sees(frozen) ? shownAs(groupFrozen(frozen)) : frozenAbove);
  const reserve = route === null ? null : gateway.ledger.estimate(ask, route);
  if (key !== null) {
    const spent = await spentBy(key, parts);
    if (spent === null) unknown.push("What is spent of budgets is not known now, because the store cannot be reached.");
    const limited =
      route === null || reserve === null
        ? [gateway.ledger.precheck(key)]
        : gateway.ledger.preview(key, ask, route, reserve, spent ?? new Map());
    for (const one of limited) if (one !== null) refusals.push(shownAs(one.failure));
  }
  const waits = snapshot().routing.waitMs > 0 || (plan?.ok === false && plan.kind === "saturated");
  if (plan !== null && !plan.ok && !waits) refusals.push(shownAs(failure(plan.kind, "no candidate is available")));
  const skipped = [
    ...(plan?.skipped ?? []).map(({ candidate, because, scope, cause, untilMs }) => ({
      ...deploymentFields(candidate),
      because,
      scope,
      cause,
      forMs: untilMs === null ? null : Math.max(0, Math.round(untilMs - gateway.ports.nowMs())),
    })),
    ...outOfBounds.map((candidate) => ({ ...deploymentFields(candidate), because: "key_channels", scope: null, cause: null, forMs: null })),
  ];
  const planned = plan?.ok === true ? plan.candidates : [];
  const found: Explained = {
    outcome: refusals.length > 0 ? "refuse" : plan?.ok === false ? "wait" : "serve",
    refusals,
    unknown,
    mode: plan?.ok === true ? plan.mode : null,
    candidates: planned.map(({ candidate, probe }) => ({
      ...deploymentFields(candidate),
      learned: lessonsOf(
        gateway.upstreams.lessons.ofChannel(candidate.deployment.channel.name).filter(({ model }) => model === candidate.deployment.model),
        parts.durable.clock.wallMs(),
      ),
      tier: candidate.deployment.channel.tier,
      weight: candidate.weight,
      probe,
      priced: parts.priced(candidate.deployment.channel.provider, candidate.deployment.model),
    })),
    skipped,
    retryAfterMs: plan?.ok === false ? Math.round((plan satisfies PlanRefusal).soonestMs) : null,
    reserve: reserve === null ? null : { tokens: reserve.tokens, nanos: reserve.nanos },
  };
  return { explained: found, candidates: planned.map(({ candidate }) => candidate) };
}

/**
 * The key as if the groups above those limited nothing; the key itself if they do not. They stay in its chain, because the limits below them
 * are counted under the name of the tree.
 */
function withoutLimitsAbove(key: Key, seen: ReadonlySet<string>): Key {
  const { chain } = key;
  if (chain === undefined || !chain.groups.some(({ id, limits }) => !seen.has(id) && hasLimits(limits))) return key;
  return {
    ...key,
    chain: { ...chain, groups: chain.groups.map((group) => (seen.has(group.id) ? group : { ...group, limits: unlimited })) },
  };
}

const frozenAbove: ExplainedRefusal = {
  status: 403,
  code: "group_frozen",
  message: "A group above yours is frozen: its keys cannot be used until the operator of this gateway unfreezes it.",
};
const brokenAbove: ExplainedRefusal = {
  status: 403,
  code: "group_missing",
  message: "A group above yours is not where it should be, so that the limits of this key are not known. Ask the operator of this gateway.",
};

/** What is spent of the budgets of a key and of its groups, as far as its receipts are in the store; null while that is away. */
async function spentBy(key: Key, parts: AdministrationParts): Promise<ReadonlyMap<string, number> | null> {
  try {
    return await storedSpending(key, parts);
  } catch (error) {
    if (error instanceof StorageError) return null;
    throw error;
  }
}

async function storedSpending(key: Key, { durable: { reports, clock } }: AdministrationParts): Promise<ReadonlyMap<string, number>> {
  const context = { reports, wallMs: clock.wallMs };
  const spent = new Map<string, number>();
  const add = (ownerId: string, budgets: readonly BudgetSpending[]): void => {
    for (const { name, models, spentNanos } of budgets) spent.set(budgetId(ownerId, models, name), spentNanos);
  };
  if (hasBudgets(key.limits)) add(key.id, await budgetSpending(context, key));
  for (const group of key.chain?.groups ?? []) if (hasBudgets(group.limits)) add(group.id, await groupSpending(context, group));
  return spent;
}

function deploymentFields({ deployment }: Candidate): { readonly channel: string; readonly model: string } {
  return { channel: deployment.channel.name, model: deployment.model };
}

function refusalOf(barrier: Barrier, { model, operation }: ExplainRequest, asTyped: Ports["asTyped"]): ExplainedRefusal {
  switch (barrier.kind) {
    case "operation_not_allowed":
      return shownAs(forbiddenOperation(operation));
    case "model_not_allowed":
      return shownAs(forbiddenModel(model));
    case "unknown_model":
      return shownAs(unknownModel(model, asTyped));
    case "failure":
      return shownAs(barrier.failure);
  }
}

/** A minimal request of the operation. */
function askOf({ operation, model, stream, promptTokens }: ExplainRequest): CallRequest {
  const document = { start: 0, end: 0 };
  const body = new Uint8Array(0);
  const promptTokensEstimate = promptTokens ?? 16;
  const text = { body, document, members: [], model, stream, wantsUsage: false, choices: 1, maxTokens: null, promptTokensEstimate };
  switch (operation) {
    case "chat":
      return {
        ...text,
        operation,
        surface: "openai-chat",
        toConversation: () => failure("unsupported", "a dry run sends nothing"),
        maxCompletionTokens: null,
        hostedTools: false,
        reasons: false,
        plainText: true,
      };
    case "speech":
      return { operation, body, document, members: [], model, input: "Hello.", characters: 6, voice: null, format: "mp3", events: false };
    case "transcription":
      return {
        operation,
        task: "transcribe",
        model,
        stream,
        format: "json",
        language: null,
        wantsWords: false,
        wantsSegments: false,
        fields: [],
        file: emptyFile,
        seconds: 1,
        isCut: false,
      };
    default:
      return { ...text, operation, contextTokens: operation === "completion" ? promptTokensEstimate : 0 };
  }
}

const emptyFile = {
  name: "audio.wav",
  type: null,
  content: { length: 1, head: new Uint8Array(0), read: () => Promise.resolve(new Uint8Array(0)) },
};
