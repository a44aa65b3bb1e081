import { describe, expect, test } from "bun:test";
import dns from "node:dns";
import net from "node:net";
import { isMetadataAddress, isPublicAddress } from "../../src/channels/network.ts";
import { connect } from "../../src/net/client/connection.ts";
import { blockedAddress } from "../../src/net/client/guarded-lookup.ts";

describe("addresses that a channel made at run time may not reach", () => {
  test.each([
    ["0.0.0.0"],
    ["10.1.2.3"],
    ["100.64.0.1"],
    ["127.0.0.1"],
    ["127.255.255.254"],
    ["169.254.1.1"],
    ["172.16.0.1"],
    ["172.31.255.255"],
    ["192.0.0.1"],
    ["192.168.1.1"],
    ["198.18.0.1"],
    ["198.19.255.255"],
    ["224.0.0.1"],
    ["255.255.255.255"],
    ["::"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["::ffff:8.8.8.8"],
    ["::7f00:1"],
    ["2002:7f00:1::"],
    ["2001:0:53aa:64c:0:5efe:7f00:1"],
    ["64:ff9b::a9fe:a9fe"],
    ["64:ff9b:1::1"],
    ["fec0::1"],
    ["fc00::1"],
    ["fd12:3456::1"],
    ["fe80::1%eth0"],
    ["ff02::1"],
    ["2001:db8::1"],
    ["3fff::1"],
    ["not an address"],
    [""],
  ])("%s", (address) => {
    expect(isPublicAddress(address)).toBe(false);
    expect(blockedAddress(address, "public")).not.toBeNull();
  });

  test.each([
    ["1.1.1.1"],
    ["8.8.8.8"],
    ["100.63.255.255"],
    ["172.32.0.1"],
    ["192.169.0.1"],
    ["198.20.0.1"],
    ["2606:4700:4700::1111"],
    ["2a00:1450::1"],
  ])("while %s is public", (address) => {
    expect(isPublicAddress(address)).toBe(true);
    expect(blockedAddress(address, "public")).toBeNull();
  });

  test.each([
    ["169.254.169.254"],
    ["100.100.100.200"],
    ["168.63.129.16"],
    ["192.0.0.192"],
    ["fd00:ec2::254"],
    ["::ffff:169.254.169.254"],
    ["64:ff9b::a9fe:a9fe"],
  ])("%s is a metadata service, and barred for every channel", (address) => {
    expect(isMetadataAddress(address)).toBe(true);
    expect(blockedAddress(address, "any")).not.toBeNull();
    expect(blockedAddress(address, "metadata")).toBeNull();
  });

  test.each([["127.0.0.1"], ["8.8.8.8"], ["10.1.2.3"], ["::1"]])("%s is none, and not reached by requests for one", (address) => {
    expect(blockedAddress(address, "metadata")).not.toBeNull();
  });
});

describe("a connection", () => {
  test("of a guarded channel is not opened to a name that resolves to this machine", async () => {
    await using door = await listening();
    const { opened } = connect(originOf("localhost", door.port, "public"), 2000);
    expect(await opened).toMatchObject({ kind: "misconfigured" });
    expect(door.accepted).toBe(0);
    const free = await connect(originOf("localhost", door.port, "any"), 2000).opened;
    expect(free).not.toHaveProperty("kind");
    (free as { destroy(): void }).destroy();
  });

  test("of a guarded channel is not opened to a literal of this machine", async () => {
    await using door = await listening();
    expect(await connect(originOf("127.0.0.1", door.port, "public"), 2000).opened).toMatchObject({ kind: "misconfigured" });
    expect(await connect(originOf("::1", door.port, "public"), 2000).opened).toMatchObject({ kind: "misconfigured" });
    expect(door.accepted).toBe(0);
  });

  test("is refused when one of several addresses of a name is private, and when a name turns private after it was checked", async () => {
    await using door = await listening();
    const answers = [["8.8.8.8", "127.0.0.1"], ["127.0.0.1"]];
    const original = dns.lookup;
    const fake = (
      _host: string,
      _options: unknown,
      callback: (error: null, found: { address: string; family: number }[]) => void,
    ): void => {
      callback(
        null,
        (answers.shift() ?? ["127.0.0.1"]).map((address) => ({ address, family: 4 })),
      );
    };
    dns.lookup = fake as unknown as typeof dns.lookup;
    try {
      expect(await connect(originOf("flips.example", door.port, "public"), 2000).opened).toMatchObject({ kind: "misconfigured" });
      expect(await connect(originOf("flips.example", door.port, "public"), 2000).opened).toMatchObject({ kind: "misconfigured" });
    } finally {
      dns.lookup = original;
    }
    expect(door.accepted).toBe(0);
  });
});

function originOf(hostname: string, port: number, reach: "any" | "public") {
  return { key: `${reach} ${hostname}:${port}`, hostname, port, secure: false, reach, socketPath: null } as const;
}

async function listening(): Promise<{ readonly port: number; accepted: number } & AsyncDisposable> {
  const server = net.createServer((socket) => {
    state.accepted++;
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  const state = {
    port: (server.address() as net.AddressInfo).port,
    accepted: 0,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
  return state;
}
