import { hostname, tmpdir } from "node:os";
import { openAdmin, type AdminServer } from "./admin-listener.ts";
import { dialects } from "../dialects/index.ts";
import { makeSplitAudio } from "../engines/audio/split.ts";
import { makeTranscode } from "../engines/audio/transcode.ts";
import { connectionsMaxOf, openFilesMax } from "../cli/process/open-files.ts";
import { secretPartsOf } from "../channels/channel-auth.ts";
import type { Channel } from "../channels/channel.ts";
import { Timers } from "../clock/timers.ts";
import type { ChannelSetting, Settings } from "../config/settings.ts";
import { buildSnapshot } from "../config/snapshot.ts";
import { Certificate } from "./certificate.ts";
import { ConfigurationRecord } from "./configuration/configuration-record.ts";
import { claimPort } from "../cli/process/workers.ts";
import { removeStaleSocket } from "../net/server/unix-socket.ts";
import type { ServerTls } from "../net/server/server-tls.ts";
import { openDurable, type Durable } from "./durable.ts";
import { localModels } from "../engines/catalog.ts";
import { engineCommand } from "../engines/command.ts";
import { Engines } from "../engines/engines.ts";
import { clearCoolDowns, UpstreamState } from "../gateway/upstream-state/upstream-state.ts";
import { Follower } from "../gateway/follower.ts";
import { dispatch } from "../gateway/dispatch.ts";
import { Gateway } from "../gateway/gateway.ts";
import { sanitizedFailure } from "../gateway/attempt/sanitized-failure.ts";
import { groupFrozen } from "../gateway/admission/frozen.ts";
import { GroupDirectory } from "../gateway/admission/group-directory.ts";
import { KeyCache } from "../gateway/admission/key-cache.ts";
import { Ledger } from "../gateway/admission/ledger.ts";
import { forgetLessons } from "../gateway/upstream-state/lessons.ts";
import { modelTimes, type ModelTimes } from "../gateway/snapshot.ts";
import type { ChangedKey } from "../gateway/storage.ts";
import type { GroupTree } from "../keys/group-tree.ts";
import type { Ports } from "../gateway/ports.ts";
import { firstKey, greeting, type StartFacts } from "./greeting.ts";
import { AuthFailures } from "../http/auth-failures.ts";
import { watchPressure } from "../http/overload/load-shed.ts";
import { KeyRing } from "../http/authenticate.ts";
import { listen, type CurrentConfig, type ListenOptions, type Listener } from "../http/server.ts";
import { gcAfterBursts } from "../http/overload/gc-after-burst.ts";
import { TokenIssuers } from "../identity/token-issuers.ts";
import { UnknownRoutes } from "../http/unknown-routes.ts";
import type { Lab } from "../lab/lab.ts";
import type { PrivateHost } from "../lab/private-gateway.ts";
import { LastUsedTimes } from "./last-used-times.ts";
import type { TestCall, WantedCalls } from "../manage/channel-test/test-calls.ts";
import type { BudgetRefusal } from "../limits/budget-refusal.ts";
import { failure, isFailure, type FailureKind } from "../operations/failure.ts";
import { signInServices } from "./sign-in.ts";
import { StoredConfiguration, type RuntimeRules } from "./configuration/stored-configuration.ts";
import { BudgetWatch } from "./telemetry/budget-watch.ts";
import { channelStates, Metrics, type OtherWorkers } from "./telemetry/metrics.ts";
import { Traffic } from "./telemetry/traffic.ts";
import { Webhooks } from "./telemetry/webhooks.ts";
import type { ExplainedSettings, Services, SignInServices, ToldCommands } from "../admin/services.ts";
import { accessLine } from "../telemetry/access.ts";
import { LiveFeed } from "../telemetry/live/live-feed.ts";
import type { Log } from "../telemetry/log.ts";
import type { GatewayState } from "../telemetry/metrics/state-metrics.ts";
import { discoverModels } from "./discovery/discover.ts";
import { CallTelemetry } from "./telemetry/call-telemetry.ts";
import { Discovery } from "./discovery/discovery.ts";
import { makeRedact } from "../telemetry/redact.ts";
import { makeFetchText } from "../net/client/fetch-text.ts";
import type { OtlpPorts } from "../telemetry/otlp/otlp-exporter.ts";
import { makePost } from "../net/client/post.ts";
import { makeSend } from "../net/client/send.ts";
import type { MachineFacts } from "../net/credentials/identity-ports.ts";
import { withCredentials } from "../net/credentials/authenticated-send.ts";
import { TokenCache } from "../net/credentials/token-cache.ts";
import { makeObtainToken } from "../net/credentials/token-client.ts";
import { makePriceBook, priceOf, type PriceBook } from "../usage/price-book.ts";
import { shippedPrices } from "../usage/shipped-prices.ts";

/** A running gateway: builds the parts and connects them. It contains no rules. */
export class App {
  private readonly gateway: Gateway;
  private readonly discovery: Discovery;
  private readonly engines: Engines;
  private readonly transcode: ReturnType<typeof makeTranscode>;
  private readonly splitAudio: ReturnType<typeof makeSplitAudio>;
  private readonly keyCache: KeyCache;
  private readonly groups: GroupDirectory;
  private readonly follower: Follower;
  private readonly lastUsedTimes: LastUsedTimes;
  private readonly tokenIssuers: TokenIssuers;
  private readonly storedConfiguration: StoredConfiguration;
  private readonly metrics: Metrics;
  private readonly traffic: Traffic;
  private readonly liveFeed: LiveFeed;
  private readonly privateHost: PrivateHost;
  /** Null until the admin API is used. */
  private lab: Lab | null = null;
  /** The channels to which test calls are being made. */
  private readonly called = new Set<string>();
  private readonly budgetWatch: BudgetWatch;
  /** Null for all workers but one. */
  private readonly configurationRecord: ConfigurationRecord | null;
  private readonly callTelemetry: CallTelemetry;
  private readonly webhooks: Webhooks | null;
  private settings: Settings;
  /** The credentials of each channel. A changed channel is a new object, so calls in flight keep those they began with. */
  private readonly secrets = new WeakMap<Channel, ReadonlyMap<string, string>>();
  private revision = 0;
  private priceBook: PriceBook;
  private modelTimes: ModelTimes | null = null;
  private current: CurrentConfig;
  private cachedRing: { readonly keys: Settings["keys"]; readonly ring: KeyRing } | null = null;
  private listener: Listener | null = null;
  private certificate: Certificate | null = null;
  private admin: AdminServer | null = null;
  private stopping = false;
  private storeReached = true;
  private pressure: ReturnType<typeof watchPressure> | null = null;
  private gcTimer: ReturnType<typeof setInterval> | null = null;

  /** The name of this process in the store. */
  get member(): string {
    return this.durable.member;
  }

  /** Opens the store first, because nothing can start without it. */
  static async open(settings: Settings, options: AppOptions): Promise<App> {
    const nowMs = (): number => performance.now();
    const timers = new Timers(nowMs);
    const hints: { hear: (scope: string, cause: string, forMs: number) => void } = { hear: () => {} };
    const durable = await openDurable({
      settings,
      givenMasterKey: options.masterKey,
      workers: options.workers,
      log: options.log,
      timers,
      nowMs,
      onHint: (scope, cause, forMs) => hints.hear(scope, cause, forMs),
    });
    const app = new App(settings, options, durable, timers, nowMs, await localModels());
    hints.hear = (scope, cause, forMs) => {
      const { upstreams } = app.gateway;
      if (cause === forgetLessons) upstreams.lessons.forget(scope);
      else if (cause === clearCoolDowns) upstreams.clearChannel(scope, app.current.snapshot);
      else upstreams.hint(scope, cause as FailureKind, forMs);
    };
    options.others?.onEnded((member) => durable.freeMember(member));
    // Changes from this revision on are noticed.
    app.revision = await durable.storage.revision();
    await app.readStored();
    await app.groups.read();
    app.rebuild();
    return app;
  }

  private constructor(
    settings: Settings,
    private readonly options: AppOptions,
    private readonly durable: Durable,
    timers: Timers,
    nowMs: () => number,
    private readonly localModels: (dataDir: string) => RuntimeRules["localModels"],
  ) {
    const { log, engineEnvironment } = options;
    this.settings = settings;
    this.rememberSecrets(settings);
    this.storedConfiguration = new StoredConfiguration(
      durable,
      log,
      () => this.runtimeRules(),
      (channel, secrets) => this.secrets.set(channel, secrets),
    );
    this.lastUsedTimes = new LastUsedTimes(durable, timers);
    this.priceBook = this.prices();
    this.engines = new Engines({
      start: (engine, socket) => engineCommand(engine, socket, settings.dataDir),
      directory: tmpdir(),
      environment: engineEnvironment,
      onEvent: (event, fields) => log.info(event, fields),
    });
    this.transcode = makeTranscode();
    this.splitAudio = makeSplitAudio({ environment: engineEnvironment });
    const after = (ms: number, then: () => void): (() => void) => timers.after(ms, then);
    const tokens = new TokenCache(nowMs);
    const redact = makeRedact(
      (channel) => this.secretsOf(channel),
      () => tokens.known,
    );
    const secret = (channel: Channel, credential: string): string | undefined => this.secrets.get(channel)?.get(credential);
    const send = makeSend(
      // Other secrets than keys are not sent: `withCredentials` proves that they are known.
      (channel, credential) => (channel.auth === undefined ? secret(channel, credential) : undefined),
      nowMs,
      (path, lost, wasAlone) => this.engines.socketFor(path, lost, wasAlone),
      (sinceMs) => this.pressure?.standstillMs(sinceMs) ?? 0,
    );
    const { wallMs } = durable.clock;
    const { asTyped } = options.told;
    const ports: Ports = {
      redact,
      asTyped,
      send: withCredentials(send, { secret, wallMs, tokens, obtain: makeObtainToken({ wallMs, nowMs, machine: options.machine }) }),
      nowMs,
      dice: Math.random,
      after,
      timers,
      tools: { transcoder: this.transcode.make },
      seal: durable.seal,
      items: durable.items,
      splitAudio: this.splitAudio,
      progress: (fields) => log.info("part", { ...fields }),
    };
    const upstreams = new UpstreamState(ports, (event, fields) => {
      log.warn(event, fields);
      if (event === "cooling") durable.hint(String(fields["scope"]), String(fields["error"]), Number(fields["for_ms"]));
    });
    this.budgetWatch = new BudgetWatch({
      reports: durable.reports,
      wallMs: durable.clock.wallMs,
      fileKeys: () => this.settings.keys.map(({ key }) => key),
      attached: (key) => this.groups.attached(key),
      groups: () => this.groups.tree.effectiveGroups(),
      ofAll: settings.webhooks.length > 0 && options.isLeader,
      refusals: async () => {
        const reports = (await options.others?.reports("refusals")) ?? [];
        return [...durable.refusedBudgets.list(), ...reports.flatMap(({ report }) => JSON.parse(report) as BudgetRefusal[])];
      },
      onCheck: async (budgets, keys) => this.webhooks?.announce(budgets, keys),
      onBug: (error) => this.bug(error),
    });
    this.webhooks =
      settings.webhooks.length === 0 || !options.isLeader
        ? null
        : new Webhooks({
            webhooks: settings.webhooks,
            post: makePost({ nowMs, wallMs: durable.clock.wallMs, reach: "any" }),
            after: (ms, then) => timers.after(ms, then),
            dice: Math.random,
            wallMs: durable.clock.wallMs,
            onLoss: (webhook, reason, types, notices) =>
              log.warn("webhook_lost", { webhook, notices, types: types.join(" "), detail: reason }),
            channels: () => channelStates(this.current.snapshot, this.gateway.upstreams),
            reports: durable.reports,
          });
    this.metrics = new Metrics({
      settings: settings.metrics,
      others: options.others,
      isListed: this.isListed,
      flush: () => this.callTelemetry.flush(),
      state: () => this.gatewayState(),
      budgets: () => (settings.metrics.budgets ? this.budgetWatch.states : []),
      more: () => [...this.callTelemetry.families(), ...(this.webhooks?.families() ?? [])],
    });
    this.traffic = new Traffic(() => this.metrics.counted(), durable.clock.wallMs);
    const { others } = options;
    this.liveFeed = new LiveFeed({
      running: () => this.gateway.calls.admitted(),
      nowMs,
      wallMs: durable.clock.wallMs,
      after,
      processes: others?.count ?? 1,
      otherReports: others === null ? null : async () => (await others.reports("live")).map(({ report }) => report),
    });
    others?.onReportWanted("refusals", () => JSON.stringify(durable.refusedBudgets.list()));
    others?.onReportWanted("live", () => this.liveFeed.report());
    this.callTelemetry = new CallTelemetry({
      ports: this.exportPorts(timers, nowMs),
      count: this.metrics.calls.observe,
      live: settings.admin === null ? null : this.liveFeed.observe,
      onBug: (error, calls) => this.bug(error, { calls }),
    });
    this.callTelemetry.configure(settings);
    const ledger = new Ledger({
      limiter: durable.limiter,
      receipts: durable.receipts,
      ratesOf: (provider, model, atMs, served) => priceOf(this.priceBook, { provider, model, served }, atMs),
      wallMs: durable.clock.wallMs,
      asTyped,
      log: (record) => log.traffic(accessLine(record, log.time())),
      observe: this.callTelemetry.observe,
      onBug: (error) => this.bug(error),
    });
    this.gateway = new Gateway(ports, upstreams, dialects, ledger);
    this.privateHost = {
      ports,
      settings: () => this.settings,
      pressure: (askedMs) => this.pressure?.pressure(askedMs) ?? idlePressure,
      hasRoom: (bytes) => this.pressure?.hasRoom(bytes) ?? true,
      wallMs: durable.clock.wallMs,
      randomBytes: (count) => crypto.getRandomValues(new Uint8Array(count)),
      onBug: (error) => this.bug(error),
    };
    this.discovery = new Discovery(
      async (channel) => {
        const outcome = await discoverModels(channel, dialects.get(channel.dialect), ports.send);
        // There is no client's request that the failure could repeat.
        return isFailure(outcome) ? sanitizedFailure(outcome, "", (text) => redact(channel, text)) : outcome;
      },
      (channel, outcome) => {
        if (isFailure(outcome)) log.warn("discovery_failed", { channel, error: outcome.kind, detail: outcome.detail });
        else log.info("discovered", { channel, models: outcome.length });
        this.rebuild();
      },
    );
    this.keyCache = new KeyCache({
      byDigest: (digest) => durable.storage.keys.byDigest(digest),
      nowMs,
      wallMs: durable.clock.wallMs,
      used: (keyId) => this.lastUsedTimes.used(keyId),
    });
    this.groups = new GroupDirectory({
      read: () => durable.storage.groups.changedSince(null),
      nowMs,
      after,
      onChange: (tree) => {
        this.tokenIssuers.groupsChanged();
        this.cancelFrozen(tree);
      },
    });
    this.tokenIssuers = new TokenIssuers({
      fetchText: makeFetchText({ nowMs }),
      nowMs,
      wallMs: durable.clock.wallMs,
      storedKey: async (idOrName) => {
        try {
          return await durable.storage.keys.find(idOrName);
        } catch {
          return "unavailable";
        }
      },
      isStale: () => this.keyCache.isStale(),
      storedGroupId: (idOrName) => this.groups.storedGroupId(idOrName),
      onRefused: (issuer, reason) => log.warn("token_refused", { issuer, detail: reason }),
    });
    this.tokenIssuers.configure(settings.tokenIssuers, settings.allowPrivate);
    this.groups.setFile(settings.groups);
    this.follower = new Follower({
      storage: durable.storage,
      after,
      onGroups: (changed, revision) => this.groups.changed(changed, revision),
      onKeys: (keys) => this.keysChanged(keys, this.keyCache.changed(keys)),
      // Calls in flight do not look their key up again, so their keys are checked for revocation first.
      onUnsure: () => [...this.gateway.calls.keyIds(), ...this.keyCache.invalidate(), ...this.tokenIssuers.invalidate()],
      onRenewed: (keys) => this.keysChanged(keys, this.keyCache.renewed(keys)),
      onChange: () => this.storeChanged(),
      onReach: (reached) => {
        this.storeReached = reached;
        if (reached) {
          log.info("store_back", {});
          this.configurationRecord?.record();
        } else log.warn("store_lost", { detail: "calls with known keys are served, others get 503" });
      },
    });
    this.configurationRecord = !options.isLeader
      ? null
      : new ConfigurationRecord({
          audit: durable.storage.audit,
          settings: () => this.settings,
          digest: durable.masterKey.adminDigest,
          by: { kind: "gateway", name: "configuration file", address: hostname() },
          after,
          log,
          onBug: (error) => this.bug(error),
        });
    this.current = this.build();
    upstreams.forgetUnknown(this.current.snapshot);
  }

  /** Ends the calls of keys that were revoked, or are in a frozen group now, and of tokens that are there with them. */
  private keysChanged(keys: readonly ChangedKey[], revokedIds: readonly string[]): void {
    for (const id of revokedIds) this.gateway.calls.cancelKeyAndTokens(id, revoked);
    this.tokenIssuers.keysChanged(keys.map(({ id }) => id));
    for (const { id, key } of keys) this.cancelIfFrozen(id, key?.group ?? null);
  }

  private cancelIfFrozen(keyId: string, group: string | null): void {
    const frozen = group === null ? null : (this.groups.tree.chainOf(group)?.frozen ?? null);
    if (frozen !== null) this.gateway.calls.cancelKeyWithGroup(keyId, groupFrozen(frozen));
  }

  /** A group may be frozen now, or be below a frozen one. */
  private cancelFrozen(tree: GroupTree): void {
    if ([...tree.all()].every(({ frozen }) => !frozen)) return;
    this.gateway.calls.cancelGroups((id) => {
      const frozen = tree.chainOf(id)?.frozen ?? null;
      return frozen === null ? null : groupFrozen(frozen);
    });
  }

  /** Ends the calls of tokens whose issuer or subject is not accepted any more. */
  private cancelGone(): void {
    for (const id of this.gateway.calls.keyIds()) if (this.tokenIssuers.isGone(id)) this.gateway.calls.cancelKey(id, revoked);
  }

  /** Returns the URL of the listener. */
  async start(found: StartFacts): Promise<string> {
    await this.durable.recovered;
    await this.follower.start(this.revision);
    await this.discovery.follow(this.discoveredChannels(), firstDiscoveryMs);
    this.rebuild();
    const { host, port, path } = this.settings.listen;
    if (path !== undefined) await removeStaleSocket(path);
    const certificate = this.openCertificate();
    // Not earlier: the load of the start itself must not count as overload.
    const pressure = watchPressure(this.gateway.ports.nowMs, () => this.gateway.calls.size);
    this.pressure = pressure;
    this.listener = listen({
      host,
      port,
      socket: path === undefined ? null : { path, mode: this.settings.listenMode },
      reusePort: this.options.workers > 1 || certificate !== null,
      tls: path === undefined ? certificate : null,
      connectionsMax: connectionsMaxOf(openFilesMax()),
      gateway: this.gateway,
      serve: (call) => dispatch(call, this.gateway),
      current: () => this.current,
      ready: () => !this.stopping,
      degraded: () => this.degraded(),
      authFailures: new AuthFailures(this.gateway.ports.nowMs, undefined, this.options.workers),
      unknownRoutes: new UnknownRoutes(this.gateway.ports.nowMs, (fact) => this.options.log.warn("unknown_route", { ...fact })),
      pressure: pressure.pressure,
      hasRoom: pressure.hasRoom,
      traces: this.callTelemetry.traceRules,
      onRefused: (why) => this.metrics.calls.refused(why),
      metrics: this.metricsEndpoint(),
      wallMs: this.durable.clock.wallMs,
      onBug: (error) => this.bug(error),
    });
    this.gcTimer = gcAfterBursts(this.gateway.calls);
    const { log, isLeader } = this.options;
    this.callTelemetry.start();
    this.webhooks?.start();
    if (isLeader) await this.lead(this.listener.url, found);
    this.watchTelemetry();
    this.configurationRecord?.record();
    const admin = this.admin === null ? undefined : { admin: this.admin.listener.url };
    log.info("listening", { url: this.listener.url, ...admin, config: this.current.snapshot.version, channels: this.channels().length });
    log.flush();
    return this.listener.url;
  }

  /**
   * The certificate, if the listeners have one. A port that changes hands later must be shared, and another program on it would not
   * be noticed, so that is looked for here.
   */
  private openCertificate(): ServerTls | null {
    const { tls, listen: place } = this.settings;
    if (tls === null) return null;
    const { log, workers } = this.options;
    const certificate = new Certificate(tls, {
      log,
      wallMs: Date.now,
      onRenewed: (renewed) => {
        if (place.path === undefined) this.listener?.renew(renewed);
        if (tls.admin) this.admin?.listener.renew(renewed);
      },
    });
    this.certificate = certificate;
    if (workers === 1) claimPort(place);
    return certificate.tls;
  }

  /** What only one of several workers does: it opens the admin API, creates the first key, and prints the greeting. */
  private async lead(url: string, found: StartFacts): Promise<void> {
    const { durable, settings } = this;
    const { nowMs } = this.gateway.ports;
    const signIn = await signInServices(settings, { seal: durable.seal, wallMs: durable.clock.wallMs, nowMs });
    this.admin = await openAdmin({
      settings,
      durable,
      services: () => this.administration(settings, signIn),
      token: this.options.adminToken,
      trustedProxies: () => this.settings.service.trustedProxies,
      tls: settings.tls?.admin === true ? (this.certificate?.tls ?? null) : null,
      onBug: (error) => this.bug(error),
    });
    // After both listeners are open: a key that is shown by a failed start would be lost.
    const madeKey = settings.keys.length > 0 ? null : await firstKey(durable);
    const words = greeting({
      ...found,
      url,
      admin: this.admin === null ? null : { url: this.admin.listener.url, bootstrap: this.admin.bootstrap },
      madeKey,
      storedKeys: await durable.storage.keys.count(),
      keys: settings.keys,
      channels: this.channels(),
      discovery: this.discovery,
      routes: this.current.snapshot.routes,
    });
    process.stdout.write(`${words}\n`);
  }

  /** Watches what is counted, as long as it is, and budgets where somebody is shown or told of them. */
  private watchTelemetry(): void {
    const { isCounting } = this.callTelemetry;
    if (this.admin !== null && isCounting) this.traffic.start();
    else this.traffic.stop();
    if ((isCounting && this.settings.metrics.budgets) || this.webhooks !== null) this.budgetWatch.start();
    else this.budgetWatch.stop();
  }

  /** Swaps in a new configuration. Calls in flight keep the one they began with, and its secrets. */
  async reload(settings: Settings): Promise<void> {
    const { log } = this.options;
    const left = new Set(settings.keys.map(({ key }) => key.id));
    const gone = this.settings.keys.filter(({ key }) => !left.has(key.id));
    for (const [name, words] of readAtStart) {
      if (JSON.stringify(settings[name]) === JSON.stringify(this.settings[name])) continue;
      log.warn("restart_needed", { detail: `\`${words}\` changed; it takes effect at the next start` });
    }
    this.settings = { ...settings, ...readAtStartOf(this.settings) };
    this.configurationRecord?.record();
    this.certificate?.reload();
    this.callTelemetry.configure(this.settings);
    this.watchTelemetry();
    this.groups.setFile(settings.groups);
    this.tokenIssuers.configure(settings.tokenIssuers, settings.allowPrivate);
    // Before the store is read, which may take long: no call may begin with a removed key after those that run have been ended.
    this.current = { ...this.current, ring: this.ring() };
    for (const { key } of gone) this.gateway.calls.cancelKeyAndTokens(key.id, revoked);
    for (const { key } of settings.keys) this.cancelIfFrozen(key.id, key.group);
    this.cancelGone();
    this.rememberSecrets(settings);
    this.priceBook = this.prices();
    // The rules for addresses and names may have changed for channels of the store as well.
    await this.readStored().catch(() => log.warn("store_lost", { detail: "channels of the store stay as they were" }));
    this.rebuild();
    const discovered = this.discoveredChannels();
    await this.discovery.follow(discovered, firstDiscoveryMs);
    if (discovered.length > 0) this.rebuild();
    log.info("reloaded", { config: this.current.snapshot.version, channels: this.channels().length });
  }

  /**
   * Shuts down gracefully: reports to load balancers that it is not ready, takes calls until they have noticed, lets running calls
   * finish, and ends the last streams with an error event.
   */
  async stop(lingers: boolean): Promise<void> {
    if (this.stopping) return;
    this.stopping = true;
    const { lingerMs, drainMs } = this.current.snapshot.service;
    this.options.log.info("stopping", { calls: this.gateway.calls.size });
    if (lingers) await sleep(lingerMs);
    const listenerEnded = this.listener?.stopListening();
    const endMs = this.gateway.ports.nowMs() + drainMs;
    const noticeMs = Math.min(lastWordMs, drainMs * lastWordShare);
    await Promise.race([this.gateway.calls.whenIdle(), sleep(drainMs - noticeMs)]);
    this.gateway.calls.cancelAll(failure("shutting_down", "the gateway is shutting down"));
    await Promise.race([this.gateway.calls.whenIdle(), sleep(noticeMs)]);
    // A call ends when its last bytes are handed to the connection, which still has to send them: a large answer takes its time.
    await Promise.race([listenerEnded, sleep(Math.max(lastBytesMs, endMs - this.gateway.ports.nowMs()))]);
    await this.close();
  }

  /** Stops all parts, and waits for the engine processes. */
  private async close(): Promise<void> {
    this.stopParts();
    await Promise.race([this.lastUsedTimes.flush(), sleep(exportMs)]);
    await Promise.race([Promise.all([this.callTelemetry.stop(), this.webhooks?.stop()]), sleep(exportMs)]);
    this.abandonTelemetry();
    await Promise.all([this.durable.stop(), this.engines.stop()]);
    this.options.log.info("stopped", {});
    this.options.log.flush();
    void this.listener?.close();
    void this.admin?.listener.close();
  }

  /** Ends at once, after a second signal. The cost of calls is in the journal already. */
  abandon(): void {
    this.stopParts();
    this.abandonTelemetry();
    this.engines.kill();
    this.options.log.info("stopped", {});
    this.options.log.flush();
  }

  /** Tells in the log what collectors and webhooks will not get any more. */
  private abandonTelemetry(): void {
    this.callTelemetry.abandon();
    this.webhooks?.abandon();
  }

  private stopParts(): void {
    this.lab?.stop();
    this.certificate?.stop();
    this.configurationRecord?.stop();
    this.follower.stop();
    this.budgetWatch.stop();
    this.traffic.stop();
    this.pressure?.stop();
    if (this.gcTimer !== null) clearInterval(this.gcTimer);
    this.lastUsedTimes.stop();
    this.discovery.stop();
    this.splitAudio.stop();
    this.transcode.stop();
  }

  private build(): CurrentConfig {
    const channels = this.channels();
    const snapshot = buildSnapshot({ ...this.settings, channels }, this.discovery.models);
    this.modelTimes = modelTimes(this.modelTimes, snapshot.routes.keys(), this.durable.clock.wallMs());
    return { snapshot: { ...snapshot, modelTimes: this.modelTimes }, ring: this.ring() };
  }

  /** Rebuilt only when the keys of the file change, because it hashes each of them. */
  private ring(): KeyRing {
    const { keys, tokenIssuers } = this.settings;
    if (this.cachedRing?.keys !== keys) {
      const find = (digest: string, token: string): ReturnType<KeyCache["find"]> => {
        const opened = this.tokenIssuers.find(digest, token);
        return opened === undefined ? this.keyCache.find(digest, token) : opened;
      };
      const { masterKey, silenceMs } = this.durable;
      this.cachedRing = { keys, ring: new KeyRing(keys, masterKey.pepper, find, this.groups, tokenIssuers.length > 0, silenceMs) };
    }
    return this.cachedRing.ring;
  }

  private rebuild(): void {
    this.current = this.build();
    this.gateway.upstreams.forgetUnknown(this.current.snapshot);
  }

  /** The channels of the file, and those of the store whose names the file does not use. */
  private channels(): readonly ChannelSetting[] {
    const taken = new Set(this.settings.channels.map(({ name }) => name));
    return [...this.settings.channels, ...this.storedConfiguration.channels.filter(({ name }) => !taken.has(name))];
  }

  private secretsOf(channel: Channel): readonly string[] {
    const known = this.secrets.get(channel);
    return channel.credentials.flatMap((credential) => secretPartsOf(channel.auth, known?.get(credential) ?? ""));
  }

  private rememberSecrets({ channels, secrets }: Settings): void {
    for (const channel of channels) this.secrets.set(channel, secrets);
  }

  private prices(): PriceBook {
    return makePriceBook([shippedPrices(), this.storedConfiguration.prices, this.settings.prices]);
  }

  private async storeChanged(): Promise<void> {
    // A change of keys needs no new routes and no discovery.
    if (!(await this.readStored())) return;
    this.rebuild();
    // Not awaited: the next change may be a revocation, which must not wait for upstreams.
    void this.discovery.follow(this.discoveredChannels(), firstDiscoveryMs);
  }

  /** Returns whether the channels have changed. */
  private async readStored(): Promise<boolean> {
    const changed = await this.storedConfiguration.read();
    if (this.tokenIssuers.setBlocked(this.storedConfiguration.blockedSubjects)) this.cancelGone();
    this.priceBook = this.prices();
    return changed;
  }

  private runtimeRules(): RuntimeRules {
    const { listen: own, admin, allowPrivate, dataDir } = this.settings;
    const hosts = [own, ...(admin === null ? [] : [admin])].map(({ host, port }) => `${host}:${port}`);
    return { allowPrivate, localModels: this.localModels(dataDir), own: hosts };
  }

  private async administration(atStart: Settings, signIn: SignInServices): Promise<Services> {
    // Imported here because a gateway whose admin API nobody uses needs none of it.
    const [{ administration }, { keptBackups }, labModule] = await Promise.all([
      import("./administration.ts"),
      import("./kept-backups.ts"),
      import("../lab/lab.ts"),
    ]);
    const lab = new labModule.Lab(this.privateHost);
    this.lab = lab;
    return administration({
      durable: this.durable,
      gateway: this.gateway,
      settings: () => this.settings,
      channels: () => this.channels(),
      snapshot: () => this.current.snapshot,
      priced: (provider, model) => priceOf(this.priceBook, { provider, model }, this.durable.clock.wallMs()) !== null,
      filePrices: () => this.settings.prices,
      runtimeRules: () => this.runtimeRules(),
      attached: (key) => this.groups.attached(key),
      groupProblem: (key) => this.groups.problemOf(key),
      degraded: () => this.degraded(),
      stopping: () => this.stopping,
      version: this.options.version,
      told: this.options.told,
      url: () => this.listener?.url ?? "",
      metrics: () => this.metrics.text(),
      certificateExpiresMs: () => this.certificate?.expiresMs ?? null,
      configuration: this.options.configuration,
      traffic: this.traffic,
      budgets: () => this.budgetWatch.latest(),
      live: (watcher) => this.liveFeed.watch(watcher),
      lab,
      webhooks: { list: () => this.webhooks?.list() ?? [], test: async (at) => (await this.webhooks?.test(at)) ?? null },
      callChannel: (name, wanted, signal) => this.callChannel(name, wanted, signal),
      backups: keptBackups(atStart, this.options.masterKey, this.options.log),
      signIn,
    });
  }

  private async callChannel(name: string, wanted: WantedCalls, signal: AbortSignal): Promise<readonly TestCall[] | "absent" | "busy"> {
    const channel = this.channels().find((one) => one.name === name);
    if (channel === undefined) return "absent";
    if (this.called.has(name)) return "busy";
    this.called.add(name);
    try {
      const { callChannel } = await import("./channel-test.ts");
      return await callChannel(this.privateHost, channel, this.discovery.models, wanted, signal);
    } finally {
      this.called.delete(name);
    }
  }

  private exportPorts(timers: Timers, nowMs: () => number): OtlpPorts {
    const { log, version, others, isLeader } = this.options;
    return {
      post: makePost({ nowMs, wallMs: Date.now, reach: "any" }),
      nowMs,
      wallMs: Date.now,
      after: (ms, then) => timers.after(ms, then),
      dice: Math.random,
      onLoss: (signal, items, reason) => log.warn("otlp_lost", { signal, items, detail: reason }),
      scheme: this.settings.tls === null || this.settings.listen.path !== undefined ? "http" : "https",
      isListed: this.isListed,
      families: () => this.metrics.exported(isLeader),
      countedFromMs: Date.now(),
      resource: {
        "service.version": version,
        "service.instance.id": crypto.randomUUID(),
        "process.pid": process.pid,
        ...(others === null ? undefined : { "sluice.worker": others.number }),
      },
    };
  }

  private readonly isListed = (model: string): boolean => this.current.snapshot.routes.has(model);

  private metricsEndpoint(): ListenOptions["metrics"] {
    const { enabled, dataPort, token, public: isPublic } = this.settings.metrics;
    return enabled && dataPort ? { token: isPublic ? null : token, text: () => this.metrics.text() } : null;
  }

  private gatewayState(): GatewayState {
    const { gateway, durable, options, current } = this;
    const { lag, journalFull, state } = durable.status();
    const { engine } = durable.database;
    const { rss, heapUsed, external } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    return {
      version: options.version,
      runtime: `bun ${process.versions["bun"] ?? ""}`,
      inFlight: gateway.calls.size,
      waitingForCapacity: gateway.upstreams.capacityQueue.size,
      loopDelayMs: this.pressure?.standstillMs(gateway.ports.nowMs() - 1000) ?? 0,
      channels: channelStates(current.snapshot, gateway.upstreams),
      journal: { bytes: lag.bytes, receipts: lag.receipts, oldestMs: lag.oldestMs, full: journalFull },
      store: { kind: engine, ok: !this.degraded().includes(engine) },
      limits: state,
      engines: this.engines.states(),
      droppedLogLines: options.log.droppedLines,
      certificateExpiresMs: this.certificate?.expiresMs ?? null,
      process: {
        residentBytes: rss,
        heapBytes: heapUsed,
        externalBytes: external,
        cpuSeconds: (user + system) / 1e6,
        // Not from the clock of now: the smallest drift would look like a restart.
        startedSeconds: Math.round(performance.timeOrigin / 1000),
      },
    };
  }

  private degraded(): readonly string[] {
    const { lag, journalFull, state } = this.durable.status();
    return [
      ...(this.storeReached && !lag.degraded ? [] : [this.durable.database.engine]),
      ...(state.ok ? [] : [state.kind]),
      ...(journalFull ? ["journal"] : []),
    ];
  }

  private bug(error: unknown, facts: Readonly<Record<string, number>> = {}): void {
    this.options.log.error("bug", { detail: error instanceof Error ? (error.stack ?? error.message) : String(error), ...facts });
  }

  private discoveredChannels(): readonly ChannelSetting[] {
    return this.channels().filter(({ models }) => models.kind === "discovered");
  }
}

/** What a gateway needs besides its settings. */
export interface AppOptions {
  readonly log: Log;
  /** The environment for engine processes. */
  readonly engineEnvironment: Record<string, string>;
  /** What channels that act as this machine find out about it. */
  readonly machine: MachineFacts;
  /** SLUICE_MASTER_KEY. */
  readonly masterKey: string | null;
  /** The token in ADMIN_TOKEN_FILE. */
  readonly adminToken: string | null;
  readonly version: string;
  /** The commands in what clients and administrators are told. */
  readonly told: ToldCommands;
  /** The settings with their origins, as the file says now. */
  readonly configuration: () => Promise<ExplainedSettings>;
  /** How many processes share the port, and whether this one opens the admin API for them. */
  readonly workers: number;
  readonly isLeader: boolean;
  /** The other processes; null if this one is alone. */
  readonly others: OtherWorkers | null;
}

/** Settings that only a restart changes, and their names in the file. */
const readAtStart = [
  ["listen", "listen"],
  ["listenMode", "listen_mode"],
  ["admin", "admin"],
  ["tls", "tls"],
  ["adminNames", "admin_names"],
  ["adminSecure", "admin_tls"],
  ["store", "store"],
  ["storeConnections", "store_connections"],
  ["readStore", "read_store"],
  ["state", "state"],
  ["stateLoss", "state_loss"],
  ["dataDir", "data_dir"],
  ["receipts", "receipts"],
  ["metrics", "metrics"],
  ["webhooks", "webhooks"],
  ["signIn", "sign_in"],
  ["logLevel", "log.level"],
  ["logFormat", "log.format"],
] as const;

/** What a reload leaves as it is, so that what is shown and compared is what this process does, and not what the next one will do. */
function readAtStartOf(settings: Settings): Pick<Settings, (typeof readAtStart)[number][0]> {
  return Object.fromEntries(readAtStart.map(([name]) => [name, settings[name]])) as Pick<Settings, (typeof readAtStart)[number][0]>;
}

/** How long a start waits for channels to list their models; slower ones follow later. */
const firstDiscoveryMs = 3000;
/** The time for the last streams to send their error event, and how much of a short drain it may take: the rest is for calls to end. */
const lastWordMs = 5000;
const lastWordShare = 0.1;
const lastBytesMs = 500;
/** How long the last traces may take, and the times at which keys were last used. */
const exportMs = 3000;

/** Before the listeners are open, nothing is measured. */
const idlePressure = { loopDelayMs: 0, memoryShare: 0 };

const revoked = failure("key_revoked", "the key was revoked");

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
