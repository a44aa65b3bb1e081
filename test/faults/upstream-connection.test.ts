// Needs: quiet. It mostly waits for connections that come to nothing; what it claims of times is in tenths of a second.
import { afterAll, describe, expect } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import net, { type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { transcribe } from "../support/audio-call.ts";
import { digBlackHole, type BlackHole } from "../support/black-hole.ts";
import type { ChaosTls } from "../support/chaos.ts";
import { header } from "../support/chaos/request.ts";
import { sseEvents } from "../support/client.ts";
import type { LogLine } from "../support/gateway.ts";
import { expectRefusal, expectToldInBand, expectWhole } from "../support/outcome.ts";
import { numRuns } from "../support/properties.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { type GroupOptions, kinds, type Row, Stage, variants } from "../support/stage.ts";
import { makeCertificates, type Certificates } from "../support/tls.ts";
import { slowed } from "../support/slowed.ts";

const directories: string[] = [];
const servers: Server[] = [];
const holes: BlackHole[] = [];
const certificates = await makeCertificates();

afterAll(async () => {
  for (const server of servers) server.close();
  await Promise.all(holes.map((hole) => hole.end()));
  await Promise.all(directories.map((directory) => rm(directory, { recursive: true })));
});

const stage = new Stage({ env: trustingOurAuthority });
/** Failures to connect are held against a host, so each variant has its own. */
let addresses = 4_400;

describe("an upstream that is not there", () => {
  interface Absence {
    readonly id: string;
    readonly what: string;
    readonly group: GroupOptions;
    readonly error: string;
    readonly code: string;
    /** How often one that is alone is asked: troubles that pass are tried again. */
    readonly attemptsAlone: number;
    readonly atLeastMs?: number;
  }
  const soon = { timeouts: { connect: "400ms" } };
  const absences: readonly Absence[] = [
    {
      id: "F01",
      what: "refuses the connection",
      group: { url: refusedUrl },
      error: "unreachable",
      code: "upstream_unreachable",
      attemptsAlone: 3,
    },
    {
      id: "F02",
      what: "swallows the connection",
      group: { url: blackHole, channel: soon },
      error: "connect_timeout",
      code: "upstream_unreachable",
      attemptsAlone: 3,
      atLeastMs: 400,
    },
    {
      id: "F03",
      what: "lies behind no route",
      group: { url: async () => `http://255.255.255.255:${(addresses += 1)}/v1` },
      error: "unreachable",
      code: "upstream_unreachable",
      attemptsAlone: 3,
    },
    {
      id: "F04",
      what: "has a name that does not exist",
      group: { url: async () => `http://nobody-${(addresses += 1)}.invalid/v1` },
      error: "unreachable",
      code: "upstream_unreachable",
      attemptsAlone: 3,
    },
    ...(certificates === null ? [] : tlsAbsences(certificates)),
    {
      id: "F06",
      what: "speaks no TLS where TLS was asked for",
      group: { url: () => listening("https", (socket) => socket.on("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))) },
      error: "tls_failed",
      code: "upstream_tls_error",
      attemptsAlone: 1,
    },
    {
      id: "F07",
      what: "stalls the TLS handshake",
      group: { url: () => listening("https", () => {}), channel: soon },
      error: "connect_timeout",
      code: "upstream_unreachable",
      attemptsAlone: 3,
      atLeastMs: 400,
    },
  ];

  function tlsAbsences({ valid, expired, wrongName, selfSigned }: Certificates): readonly Absence[] {
    const bad: readonly (readonly [string, ChaosTls])[] = [
      ["has a certificate that it signed itself", selfSigned],
      ["has an expired certificate", expired],
      ["has a certificate for another name", wrongName],
      ["speaks TLS 1.0 only", { ...valid, minVersion: "TLSv1", maxVersion: "TLSv1" }],
      ["speaks TLS 1.1 only", { ...valid, minVersion: "TLSv1.1", maxVersion: "TLSv1.1" }],
    ];
    return bad.map(([what, tls]) => ({
      id: "F06",
      what,
      group: { upstream: { tls } },
      error: "tls_failed",
      code: "upstream_tls_error",
      attemptsAlone: 1,
    }));
  }

  for (const { id, what, group, error, code, attemptsAlone, atLeastMs = 0 } of absences) {
    stage.rows(
      `${id}: an upstream that ${what} is passed over, and reported as ${code} where it is the only one`,
      variants,
      async (row, { stream, alone }) => {
        const reply = await row.ask({ stream, alone });
        const tries = await triesOf(row, reply);
        // Nothing was sent over a connection that was not to be trusted.
        expect(row.a.ledger.chats.length).toBe(0);
        if (alone) {
          expectRefusal(reply, 502, code);
          expect(reply.response.header("x-should-retry")).toBe("false");
          expect(errorsOf(tries)).toEqual(Array.from({ length: attemptsAlone }, () => error));
        } else {
          expectWhole(row, reply, row.b);
          expect(errorsOf(tries)).toEqual([error, undefined]);
        }
        for (const one of tries.filter((each) => each["error"] === error)) {
          // Each attempt has the whole of its time, whatever the one before it found out.
          expect(Number(one["ms"])).toBeGreaterThanOrEqual(atLeastMs);
          expect(Number(one["ms"])).toBeLessThan(slowed(atLeastMs + 1_500));
        }
      },
      group,
    );
  }

  stage.row(
    "F01: an upstream that refused five times in a row is not dialled a sixth time, and one refusal counts once",
    async (row) => {
      const tookMs: number[] = [];
      for (let call = 1; call <= 5; call += 1) {
        expect(row.coolings().length).toBe(0);
        const reply = await row.ask();
        expect((await row.line(reply))["attempts"]).toBe(2);
        tookMs.push(Number(reply.response.timing.endMs));
      }
      // The way over the second upstream, its pause included; a machine that is busy may be late, but not each time.
      expect(Math.min(...tookMs)).toBeLessThan(slowed(100));
      await row.gateway.waitForLog((line) => row.coolings().includes(line));
      expect(row.coolings()[0]).toMatchObject({ error: "unreachable" });
      expect(String(row.coolings()[0]?.["scope"])).toStartWith("host ");
      for (let call = 0; call < 3; call += 1) {
        const reply = await row.ask();
        expectWhole(row, reply, row.b);
        expect(await row.line(reply)).toMatchObject({ attempts: 1, channel: row.channel("b") });
      }
      expect(row.coolings().length).toBe(1);
    },
    { url: refusedUrl },
  );

  if (certificates !== null) {
    const { valid } = certificates;
    stage.rows(
      "F06: an upstream with a good certificate is used, also when it takes longer than a connection may",
      kinds,
      async (row, { stream }) => {
        row.a.behaviour = "fault:delay@700";
        const reply = await row.ask({ stream });
        expectWhole(row, reply, row.a);
        expect(row.path(reply)).toBe("a");
      },
      { upstream: { tls: valid }, channel: { timeouts: { connect: "300ms" } } },
    );
  }
});

if (certificates !== null) {
  const upstream = { tls: certificates.valid, cutsTls: true };
  stage.rows(
    "F15: an answer until the close of a TLS connection that is cut below TLS is not taken for whole, of whatever kind it is",
    [
      { label: "JSON", ask: (row: Row) => row.ask() },
      { label: "a transcript as JSON", ask: (row: Row) => transcribe(row, { format: "json" }) },
      { label: "a transcript as text", ask: (row: Row) => transcribe(row, { format: "text" }) },
      { label: "a transcript as subtitles", ask: (row: Row) => transcribe(row, { format: "srt" }) },
    ],
    async (row, { ask }) => {
      row.a.behaviour = "fault:tls-cut-after@1";
      const reply = await ask(row);
      expect([reply.status, row.a.ledger.attempts.every(({ endedBy }) => endedBy === "fault")]).toEqual([200, true]);
      expect(row.b.ledger.attempts.length).toBe(1);
    },
    { upstream },
  );

  stage.rows(
    "F15: JSON until the close of a TLS connection is taken for whole where it is; text cannot be told, and is taken for cut",
    [
      { label: "JSON", ask: (row: Row) => row.ask(), served: "a" as const },
      { label: "a stream", ask: (row: Row) => row.ask({ stream: true }), served: "a" as const },
      { label: "a transcript as text", ask: (row: Row) => transcribe(row, { format: "text" }), served: "b" as const },
    ],
    async (row, { ask, served }) => {
      row.a.behaviour = "fault:close-delimited";
      expect((await ask(row)).status).toBe(200);
      expect(row.b.ledger.attempts.length).toBe(served === "b" ? 1 : 0);
    },
    { upstream },
  );
}

describe("a connection that breaks before the answer", () => {
  const breaks = [
    { id: "F08", what: "closed before the head", behaviour: "fault:close-before-headers", streams: [false, true] },
    { id: "F08", what: "reset before the head", behaviour: "fault:rst-before-headers", streams: [false, true] },
    { id: "F10", what: "reset inside the head", behaviour: "fault:rst-mid-headers", streams: [false, true] },
    { id: "F11", what: "reset inside a whole answer", behaviour: "fault:rst-mid-body", streams: [false] },
    { id: "F11", what: "closed inside a whole answer", behaviour: "fault:fin-mid-body", streams: [false] },
  ] as const;

  for (const { id, what, behaviour, streams } of breaks) {
    stage.rows(
      `${id}: a connection ${what} costs the client nothing but time, and is reported after three attempts where nobody else is left`,
      variants.filter(({ stream }) => (streams as readonly boolean[]).includes(stream)),
      async (row, { stream, alone }) => {
        row.a.behaviour = behaviour;
        const reply = await row.ask({ stream, alone });
        expect(row.coolings().length).toBe(0);
        if (alone) {
          expectRefusal(reply, 502, "upstream_disconnected");
          expect(reply.response.header("x-should-retry")).toBe("false");
          expect(row.path(reply)).toBe("aaa");
        } else {
          expectWhole(row, reply, row.b);
          // It failed quickly, so the better tier gets one more chance.
          expect(row.path(reply)).toBe("aab");
          expect(errorsOf(await triesOf(row, reply))).toEqual(["disconnected", "disconnected", undefined]);
        }
      },
    );
  }

  stage.row(
    "F08: an upstream that answered before and then closes every connection gets one request more than attempts, once",
    async (row) => {
      expectWhole(row, await row.ask({ alone: true }), row.a);
      row.a.behaviour = "fault:close-before-headers";
      const first = await row.ask({ alone: true });
      expectRefusal(first, 502, "upstream_disconnected");
      // The kept connection could have been stale; that the fresh one is closed as well says otherwise.
      expect(row.path(first)).toBe("aaaa");
      expect((await row.line(first))["attempts"]).toBe(3);
      expect(row.path(await row.ask({ alone: true }))).toBe("aaa");
    },
    { attemptsMax: 4 },
  );

  stage.row("F08: each broken connection is charged once: the fifth in a row closes the way", async (row) => {
    row.a.behaviour = "fault:close-before-headers";
    expect(row.path(await row.ask())).toBe("aab");
    expect(row.path(await row.ask())).toBe("aab");
    expect(row.coolings().length).toBe(0);
    const fifth = await row.ask();
    expectWhole(row, fifth, row.b);
    // The fifth failure is this call's first attempt; after it nobody asks again.
    expect(row.path(fifth)).toBe("ab");
    await row.gateway.waitForLog((line) => row.coolings().includes(line));
    expect(row.coolings()[0]).toMatchObject({ error: "disconnected" });
    expect(String(row.coolings()[0]?.["scope"])).toStartWith("deployment ");
    expect(row.path(await row.ask())).toBe("b");
    expect(row.coolings().length).toBe(1);
  });
});

describe("a kept connection", () => {
  const repeats = numRuns(250);
  stage.rows(
    `F09: a kept connection that is closed in the moment of sending is replaced without blame, ${repeats} times over`,
    [
      { label: "closed", manner: "close" },
      { label: "reset", manner: "rst" },
    ],
    async (row, { manner }) => {
      row.a.behaviour = `fault:close-on-reuse@${manner}`;
      for (let call = 0; call < repeats; call += 1) {
        const reply = await row.ask({ stream: call % 2 === 1 });
        expectWhole(row, reply, row.a);
      }
      const stale = row.a.ledger.connections.filter(({ closedOnReuse }) => closedOnReuse).length;
      expect(stale).toBeGreaterThan(repeats / 4);
      expect(row.b.ledger.chats.length).toBe(0);
      expect(row.coolings().length).toBe(0);
      const tries = await Promise.all(row.replies.map((reply) => triesOf(row, reply)));
      // Where this process was too slow to close at once, the gateway cannot know that it did not look at the request.
      const isLate = ({ ms, error }: LogLine): boolean => error === "disconnected" && Number(ms) > 50;
      expect(tries.filter((all) => all.length > 1 && !all.slice(0, -1).every(isLate))).toEqual([]);
    },
  );

  stage.rows(
    "F09: a request that was delivered on a kept connection, and goes unanswered, is a failed attempt that may cost: it is not sent again unseen",
    kinds,
    async (row, { stream }) => {
      expectWhole(row, await row.ask({ stream }), row.a);
      row.a.script(["fault:delivered-then-closed@300"]);
      const reply = await row.ask({ stream });
      expectWhole(row, reply, row.a);
      const [delivered, again, ...more] = row.a.ledger.ofCall(reply.call ?? "");
      expect([delivered!.behaviour, again!.statusSent, more]).toEqual(["fault:delivered-then-closed@300", 200, []]);
      expect(row.a.ledger.connections[0]!.requests).toBe(2);
      expect(errorsOf(await triesOf(row, reply))).toEqual(["disconnected", undefined]);
      expect(await row.line(reply)).toMatchObject({ attempts: 2 });
    },
  );

  stage.rows(
    "F09: a kept connection that answers 408 at once had been idle for too long, and is replaced without blame; a fresh one means it",
    kinds,
    async (row, { stream }) => {
      expectWhole(row, await row.ask({ stream, alone: true }), row.a);
      row.a.script(["fault:status@408"]);
      const reply = await row.ask({ stream, alone: true });
      expectWhole(row, reply, row.a);
      // Where this process was too slow to say so at once, the gateway cannot know that it did not look at the request.
      const isLate = ({ ms, error }: LogLine): boolean => error === "overloaded" && Number(ms) > 50;
      expect((await triesOf(row, reply)).slice(0, -1).every(isLate)).toBe(true);
      expect(row.a.ledger.ofCall(reply.call ?? "").map(({ statusSent }) => statusSent)).toEqual([408, 200]);
      row.a.behaviour = "fault:status@408";
      const refused = await row.ask({ stream, alone: true });
      expect(errorsOf(await triesOf(row, refused))[0]).toBe("overloaded");
      expect(row.coolings().length).toBe(0);
    },
    { attemptsMax: 4 },
  );
});

describe("an upstream that keeps the client waiting", () => {
  const soon = { connect: "300ms", first_byte: "500ms", first_content: "500ms", idle: "500ms" };
  const waits = [
    { id: "F24", what: "drips its head", behaviour: "fault:slow-headers@20" },
    { id: "F24", what: "is connected and says nothing", behaviour: "fault:silent" },
    { id: "F26", what: "sends its head and nothing more", behaviour: "fault:hang-after-headers" },
  ] as const;

  for (const { id, what, behaviour } of waits) {
    stage.rows(
      `${id}: an upstream that ${what} is given up when its time is over, is not asked twice, and is reported as a timeout`,
      variants,
      async (row, { stream, alone }) => {
        row.a.behaviour = behaviour;
        const reply = await row.ask({ stream, alone });
        if (alone) expectRefusal(reply, 504, "upstream_timeout");
        else expectWhole(row, reply, row.b);
        expect(row.path(reply)).toBe(alone ? "a" : "ab");
        const [first] = await triesOf(row, reply);
        expect(first).toMatchObject({ error: "timed_out" });
        expect(Number(first?.["ms"])).toBeGreaterThanOrEqual(499);
        expect(Number(first?.["ms"])).toBeLessThan(slowed(2_000));
      },
      { channel: { timeouts: soon } },
    );
  }

  stage.rows(
    "F24: an upstream that thinks longer than a connection may take is waited for",
    kinds,
    async (row, { stream }) => {
      row.a.behaviour = "fault:delay@900";
      const reply = await row.ask({ stream });
      expectWhole(row, reply, row.a);
      expect(row.path(reply)).toBe("a");
    },
    { channel: { timeouts: { connect: "200ms" } } },
  );

  stage.row(
    "F26: an upstream that sends blank space while it works on a whole answer is not silent",
    async (row) => {
      row.a.behaviour = "fault:padded-wait@16,80";
      const reply = await row.ask();
      expectWhole(row, reply, row.a);
      expect(row.path(reply)).toBe("a");
    },
    { channel: { timeouts: { idle: "600ms" } } },
  );
});

describe("a client that waits for its first content", () => {
  const impatient = new Stage({ config: { server: { early_headers: "100ms", keep_alive: "80ms" } } });
  const channel = { timeouts: { first_content: "700ms" } };

  impatient.rows(
    "F26: a client that waits gets its head and signs of life, and then the answer of another upstream",
    ["fault:hang-after-headers", "fault:silent", "fault:heartbeat-forever"].map((behaviour) => ({ label: behaviour, behaviour })),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const call = await row.open({ stream: true, headers: { "x-team": "seven" } });
      await call.untilHead();
      expect(row.b.ledger.chats.length).toBe(0);
      const reply = await call.reply;
      expectWhole(row, reply, row.b);
      expect(row.b.ledger.chats.map((attempt) => header(attempt, "x-team"))).toEqual(["seven"]);
      const { comments, others, trailing } = sseEvents(reply.response.body);
      expect(comments.length).toBeGreaterThanOrEqual(3);
      expect(new Set(comments)).toEqual(new Set(["keep-alive"]));
      expect({ others, trailing }).toEqual({ others: [], trailing: "" });
    },
    { channel, channels: { forward_headers: ["x-team"] } },
  );

  impatient.row(
    "F26: a client that was sent its head is told in-band when nobody answers",
    async (row) => {
      row.a.behaviour = "fault:hang-after-headers";
      const reply = await row.ask({ stream: true, alone: true });
      expect(reply.content).toBe("");
      expectToldInBand(reply, "upstream_timeout");
      expect(await row.line(reply)).toMatchObject({ status: 200, state: "failed", error: "timed_out" });
    },
    { channel },
  );
});

async function trustingOurAuthority(): Promise<Record<string, string>> {
  if (certificates === null) return {};
  const directory = await mkdtemp(join(tmpdir(), "sluice-authority-"));
  directories.push(directory);
  const file = join(directory, "authority.pem");
  await writeFile(file, certificates.authority);
  return { NODE_EXTRA_CA_CERTS: file };
}

async function blackHole(): Promise<string> {
  const hole = await digBlackHole();
  holes.push(hole);
  return hole.url;
}

async function listening(scheme: string, receive: (socket: net.Socket) => void): Promise<string> {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    receive(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

async function triesOf(row: Row, reply: Parameters<Row["line"]>[0]): Promise<readonly LogLine[]> {
  return ((await row.line(reply))["tries"] ?? []) as readonly LogLine[];
}

function errorsOf(tries: readonly LogLine[]): readonly unknown[] {
  return tries.map((one) => one["error"]);
}
