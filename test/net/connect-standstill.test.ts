// Needs: quiet. It mostly waits for addresses that do not answer.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { once } from "node:events";
import net, { type AddressInfo, type Server } from "node:net";
import tls from "node:tls";
import { Connection, connect, type Origin } from "../../src/net/client/connection.ts";
import { digBlackHole, type BlackHole } from "../support/black-hole.ts";
import { makeCertificates } from "../support/tls.ts";
import { slowed } from "../support/slowed.ts";

const connectMs = 200;
const standsStillMs = 1_500;
const certificates = await makeCertificates();

let plain: Server;
let hole: BlackHole;

beforeAll(async () => {
  plain = await listening(net.createServer());
  hole = await digBlackHole();
});

afterAll(async () => {
  plain.close();
  await hole.end();
});

async function listening(server: Server): Promise<Server> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

function originOf(port: number, secure: boolean, hostname = "127.0.0.1"): Origin {
  return { key: String(port), hostname, port, secure, reach: "any", socketPath: null };
}

/** What comes of a connection while which the process stands still; the system goes on with it meanwhile. */
async function opened(port: number, secure: boolean, hostname?: string, stillMs = standsStillMs): Promise<string> {
  const dial = connect(originOf(port, secure, hostname), connectMs);
  Bun.sleepSync(stillMs);
  const outcome = await dial.opened;
  if (!(outcome instanceof Connection)) return outcome.kind;
  outcome.destroy();
  return "connected";
}

test("F69: a connection that came about while the process stood still is no connection that timed out", async () => {
  const { port } = plain.address() as AddressInfo;
  expect(await opened(port, false)).toBe("connected");
  // Nor is a name that was found meanwhile.
  expect(await opened(port, false, "localhost")).toBe("connected");
});

test.skipIf(certificates === null)("F69: and what has to follow, such as a TLS handshake, has its time", async () => {
  const { key, cert } = certificates!.selfSigned;
  const server = await listening(tls.createServer({ key, cert }));
  try {
    // Nobody trusts this certificate, which is found out at the end of the handshake.
    expect(await opened((server.address() as AddressInfo).port, true)).toBe("tls_failed");
  } finally {
    server.close();
  }
});

test("F69: nor is one that came about while the process was held up for hardly longer than the limit, by what it had been doing", async () => {
  const { port } = plain.address() as AddressInfo;
  const busy = net.connect(port, "127.0.0.1");
  const dialled = new Promise<string>((resolve) => {
    // In the turn in which something arrived, as calls do: timers are looked at before whatever comes next.
    busy.once("data", () => resolve(opened(port, false, undefined, connectMs + 100)));
  });
  const [accepted] = (await once(plain, "connection")) as [net.Socket];
  accepted.write("x");
  expect(await dialled).toBe("connected");
  busy.destroy();
  accepted.destroy();
});

test("F69: where nobody answers, it is over soon after all the same", async () => {
  const beganMs = performance.now();
  expect(await opened(Number(new URL(hole.url).port), false)).toBe("connect_timeout");
  expect(performance.now() - beganMs).toBeLessThan(slowed(standsStillMs + 3_000));
});
