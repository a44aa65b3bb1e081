import { afterAll } from "bun:test";
import { makeAdminHandler, type AdminHandler, type AdminHandlerOptions } from "../../src/admin/handler.ts";
import { listenAdmin, type AdminListener, type AdminListenOptions } from "../../src/admin/listener.ts";
import { hashPassword } from "../../src/admin/login/password.ts";
import type { AdminRoute } from "../../src/admin/route.ts";
import { resourceRoutes } from "../../src/admin/routes/routes.ts";
import { desiredResources } from "../../src/app/resource-text.ts";
import type { LabRunFacts, LabServices } from "../../src/admin/lab-services.ts";
import type { OidcServices, Services } from "../../src/admin/services.ts";
import type { TestCall } from "../../src/manage/channel-test/test-calls.ts";
import { OwnBudgets } from "../../src/manage/problems/own-budgets.ts";
import type { WebhookDelivery } from "../../src/manage/webhooks.ts";
import type { Actor, Role, Storage } from "../../src/gateway/storage.ts";
import { adminTokenPrefix, makeToken } from "../../src/keys/token.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { makeTextSeal } from "../../src/store/secrets/text-seal.ts";
import { makeStorage } from "../../src/store/storage.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { migratedDataDir } from "./databases.ts";

export const goodPassword = "three unrelated words";
export const tester: Actor = { kind: "cli", name: "tester" };

/** A running admin listener over a real SQLite store of its own, with a clock that the test moves. */
export interface AdminWorld {
  readonly url: string;
  readonly listener: ReturnType<typeof openListener>;
  readonly storage: Storage;
  readonly database: Database;
  readonly services: Services;
  readonly dataDir: string;
  readonly storeFile: string;
  /** What went wrong inside, as the log would get it. */
  readonly bugs: unknown[];
  /** Moves both clocks. */
  pass(ms: number): void;
  /** With `goodPassword`. To compare it takes no time, unless the hash is given. */
  account(name: string, role: Role, passwordHash?: string): Promise<void>;
  /** Calls that were made, as their receipts arrive in the store. */
  receipts(...receipts: readonly Receipt[]): Promise<void>;
  /** The headers of a machine with that role. */
  token(role: Role, group?: string): Promise<Record<string, string>>;
  /** The headers of a person's browser that is logged in, also those for changes. */
  session(name: string): Promise<Record<string, string>>;
  call(method: string, path: string, options?: CallOptions): Promise<Called>;
}

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string | Uint8Array<ArrayBuffer>;
}

export interface Called {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Null when it is not JSON. */
  readonly json: unknown;
}

export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly code: string;
    readonly param: string | null;
    readonly request_id: string;
  };
}

export function codeOf(called: Called): string {
  return (called.json as ErrorBody).error.code;
}

type ListenerOptions = Omit<AdminHandlerOptions & AdminListenOptions, "handler" | "host" | "port">;

export function openListener(options: ListenerOptions): AdminListener & Pick<AdminHandler, "routes"> {
  const place = { host: "127.0.0.1", port: 0 };
  const handler = makeAdminHandler({ ...place, ...options });
  return { ...listenAdmin({ ...place, ...options, handler: () => Promise.resolve(handler) }), routes: handler.routes };
}

export async function startAdmin(options: StartOptions = {}): Promise<AdminWorld> {
  const dataDir = options.dataDir ?? (await migratedDataDir());
  let offsetMs = 0;
  const wallMs = (): number => Date.now() + offsetMs;
  const database = await openDatabase({ store: "sqlite", dataDir });
  const storage = makeStorage(database, { wallMs, newId: () => Bun.randomUUIDv7() });
  const services = makeServices(options.storage?.(storage) ?? storage, wallMs, options.services);
  const bugs: unknown[] = [];
  const listener = openListener({
    services,
    routes: [...resourceRoutes, ...(options.routes ?? [])],
    nowMs: () => performance.now() + offsetMs,
    onBug: (error) => bugs.push(error),
    ...options.listen,
  });
  leftovers.push(async () => {
    await listener.close();
    await storage.close();
  });
  const call = (method: string, path: string, sent: CallOptions = {}): Promise<Called> => callAdmin(listener.url, method, path, sent);
  let tokens = 0;
  return {
    url: listener.url,
    listener,
    storage,
    database,
    services,
    dataDir,
    storeFile: storeFile(dataDir),
    bugs,
    pass: (ms) => {
      offsetMs += ms;
    },
    account: async (name, role, passwordHash) => {
      quickHash ??= Bun.password.hash(goodPassword, { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
      await storage.accounts.create({ name, role, passwordHash: passwordHash ?? (await quickHash) }, tester);
    },
    receipts: async (...receipts) => {
      await database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, receipts)));
    },
    token: async (role, group) => {
      const { token } = makeToken(services.randomBytes, adminTokenPrefix);
      const mark = { digest: services.adminDigest(token), last4: token.slice(-4) };
      await storage.accounts.createToken({ name: `machine-${++tokens}`, role, ...(group === undefined ? {} : { group }), mark }, tester);
      return { authorization: `Bearer ${token}` };
    },
    session: async (name) => {
      const called = await call("POST", "/admin/api/login", { body: { name, password: goodPassword } });
      if (called.status !== 200) throw new Error(`no session for ${name}: ${called.status} ${called.text}`);
      return {
        cookie: (called.headers.get("set-cookie") ?? "").split(";")[0] ?? "",
        "x-csrf-token": (called.json as { csrf_token: string }).csrf_token,
        "content-type": "application/json",
        origin: listener.url,
      };
    },
    call,
  };
}

export interface StartOptions {
  readonly dataDir?: string;
  readonly routes?: readonly AdminRoute[];
  readonly listen?: Partial<ListenerOptions>;
  readonly services?: Partial<Services>;
  /** Puts something between the listener and the store. */
  readonly storage?: (real: Storage) => Storage;
}

/** Services with a real store and harmless stand-ins for the running gateway. */
export function makeServices(storage: Storage, wallMs: () => number, given: Partial<Services> = {}): Services {
  const pepper = crypto.getRandomValues(new Uint8Array(32));
  const randomBytes = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));
  return {
    storage,
    reports: storage,
    wallMs,
    version: "0.0.0-test",
    told: { name: "sluice", asTyped: (text) => text },
    randomBytes,
    digest: (token) => new Bun.CryptoHasher("sha256", pepper).update(token).digest("hex"),
    adminDigest: (token) => new Bun.CryptoHasher("sha256", pepper).update(`admin ${token}`).digest("hex"),
    makeKeyToken: () => makeToken(randomBytes),
    makeAdminToken: () => makeToken(randomBytes, adminTokenPrefix),
    hashPassword,
    definedAt: (_, name) => `sluice.yaml, line ${name.length}`,
    fileKeys: () => [],
    fileGroups: () => [],
    tokenIssuers: () => ["jobs"],
    opensFileKey: () => false,
    prices: () => ({ shipped: [], file: [] }),
    metrics: () => Promise.resolve("# no metrics\n"),
    signIn: { localAccounts: true, sessionLifeMs: 12 * 3_600_000, sessionIdleMs: 30 * 60_000, oidc: wordlessProvider },
    health: async () => ({
      status: "ok",
      url: "http://127.0.0.1:4400",
      store: { engine: "sqlite", ok: true, detail: null },
      state: { kind: "memory", ok: true, detail: null },
      journal: { waitingBytes: 0 },
      insecureTransport: false,
      certificate: null,
    }),
    channels: {
      isInFile: () => false,
      check: async () => [],
      seal: (_, secrets) => `sealed ${secrets.length} as ${Bun.hash(secrets.join())}`,
      status: () => [],
      test: async (name) => (name === "tested" ? wellTested : null),
      call: async (name) => (name === "tested" ? [testedCall] : "absent"),
      forget: () => 2,
      clear: () => 1,
    },
    nowMs: () => performance.now(),
    resources: { read: (file, text, variables) => desiredResources(file, { text, variables }), unseal: () => null },
    configuration: async () => ({ file: "/etc/sluice.yaml", problem: null, settings: [shownSetting] }),
    traffic: { since: () => [], state: () => ({ inFlight: 0, sinceMs: wallMs() }), firstContent: () => null },
    budgets: () => ({ spent: [], isWhole: true, refusals: new Map() }),
    ownBudgets: new OwnBudgets(),
    lab: standInLab,
    webhooks: {
      list: () => [
        {
          origin: "https://hooks.example.com",
          types: ["cost.jump"],
          waiting: 0,
          delivered: 1,
          lost: 0,
          deliveries: [sentNotice(wallMs())],
        },
      ],
      test: async (at) => (at === 0 ? sentNotice(wallMs()) : null),
    },
    hasLocalModels: () => false,
    backups: {
      folder: "/data/backups",
      masterKeyPlace: "/data/master-key",
      impossible: null,
      instead: null,
      list: () => [{ name: "sluice-2026-01-31-12-00-00.backup", bytes: 7, madeMs: wallMs() }],
      state: () => ({ running: null, failure: null }),
      start: () => undefined,
      content: (name) => (name === "sluice-2026-01-31-12-00-00.backup" ? new Blob(["content"]) : null),
      remove: () => undefined,
    },
    dataPlane: async (path) => Response.json({ path }),
    live: (watcher) => {
      watcher({ calls: [], running: 0, omitted: 0 });
      return () => undefined;
    },
    explain: async () => ({
      outcome: "serve",
      refusals: [],
      unknown: [],
      mode: "normal",
      candidates: [],
      skipped: [],
      retryAfterMs: null,
      reserve: null,
    }),
    preview: async () => ({ status: 400, code: "invalid_json", message: "The request is none." }),
    ...given,
  };
}

const testedCall: TestCall = {
  operation: "speech",
  model: "m",
  ok: true,
  status: 200,
  tookMs: 5,
  outcome: "3 bytes of audio",
  text: null,
  audio: { type: "audio/mpeg", bytes: new Uint8Array([1, 2, 3]) },
};

/** Has one scenario, and one run of it. */
const labScenario: LabServices["scenarios"][number] = {
  name: "reset",
  title: "Reset",
  fault: "lab-a resets.",
  expected: "lab-b answers.",
  modes: ["streamed"],
  channels: [{ name: "lab-a", behaviour: "fault:rst-before-headers" }],
};
const labRun: LabRunFacts = {
  id: "lab-1",
  request: { scenario: labScenario, mode: "streamed", calls: 1, rate: 1 },
  state: "ended",
  startedMs: 0,
  calls: [{ call: null, client: { sees: "answer", status: 200, code: null, words: 60, retryAfterS: null } }],
  channels: [
    { name: "lab-a", behaviour: "fault:rst-before-headers", asked: 1, breaker: { state: "open", cause: "disconnected", forMs: 5 } },
  ],
  broken: [],
};
const standInLab: LabServices = {
  scenarios: [labScenario],
  start: ({ scenario, mode }) =>
    scenario === "reset" ? (mode === "whole" ? "no_mode" : labRun) : scenario === "busy" ? "busy" : "no_scenario",
  find: (id) => (id === labRun.id ? labRun : null),
  list: () => [labRun],
  remove: async (id) => (id === labRun.id ? labRun : null),
};

const shownSetting = {
  path: "listen",
  numbered: "listen",
  value: "127.0.0.1:4400",
  origin: "file",
  line: 1,
  variables: [],
  otherwise: null,
  about: "Where clients connect.",
} as const;

/** Everybody who returns from it is Ada of the platform group. */
const wordlessProvider: OidcServices = {
  provider: {
    issuer: "https://login.example.com",
    begin: async () => ({ url: "https://login.example.com/auth", pending: { state: "a-state", nonce: "a-nonce", verifier: "a-verifier" } }),
    finish: async () => ({ subject: "u-1", name: "ada", groups: ["platform"], idToken: "a.b.c" }),
    endSessionUrl: () => Promise.resolve(null),
  },
  publicUrl: "http://127.0.0.1:4401",
  groupAdmins: new Map(),
  adminGroups: ["platform"],
  viewerGroups: [],
  seal: makeTextSeal({ version: "1", bytes: new Uint8Array(32).fill(1) }),
};

const wellTested = { ok: true, status: 200, code: "ok", tookMs: 12.5 };

/** Everything that is on the disk of the store, as text. */
export async function storeText({ storeFile }: AdminWorld): Promise<string> {
  const parts = await Promise.all(
    ["", "-wal"].map(async (suffix) => {
      const file = Bun.file(storeFile + suffix);
      return (await file.exists()) ? Buffer.from(await file.arrayBuffer()).toString("latin1") : "";
    }),
  );
  return parts.join("");
}

export async function callAdmin(url: string, method: string, path: string, { headers, body, raw }: CallOptions): Promise<Called> {
  const response = await fetch(url + path, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(raw === undefined ? (body === undefined ? {} : { body: JSON.stringify(body) }) : { body: raw }),
    redirect: "manual",
    signal: AbortSignal.timeout(10_000),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type") === "application/json" && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? (JSON.parse(text) as unknown) : null };
}

let quickHash: Promise<string> | undefined;
const leftovers: (() => Promise<void>)[] = [];

afterAll(async () => {
  for (const end of leftovers.splice(0).toReversed()) await end();
});

function sentNotice(atMs: number): WebhookDelivery {
  return { atMs, type: "test", status: 200, ok: true };
}
