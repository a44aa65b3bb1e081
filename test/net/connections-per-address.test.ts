// Needs: quiet. It mostly waits for connections to be refused or closed.
import { expect, setDefaultTimeout, test } from "bun:test";
import net, { type Socket } from "node:net";
import { ConnectionsByNetwork } from "../../src/net/server/client-network.ts";
import { eventually } from "../support/eventually.ts";
import { setUp } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** One request on a connection of its own that stays open; null: the connection was reset. */
async function visit(url: string, from = "127.0.0.1"): Promise<Socket | null> {
  const { hostname, port } = new URL(url);
  const socket = net.connect({ host: hostname, port: Number(port), localAddress: from });
  return new Promise((resolve) => {
    socket.once("error", () => resolve(null));
    socket.once("close", () => resolve(null));
    socket.once("data", () => resolve(socket));
    socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  });
}

test("server.connections_per_address: further connections of an address are reset, and those of others are not", async () => {
  await using rig = await setUp({ a: {} }, { server: { connections_per_address: 3 } });
  const { url } = rig.gateway;
  // The connection of the first call of this rig is gone when its client has seen the answer, or a moment later.
  const opened: Socket[] = [];
  await eventually("three are served", async () => {
    const socket = await visit(url);
    if (socket !== null) opened.push(socket);
    return opened.length === 3;
  });
  for (let attempt = 0; attempt < 10; attempt += 1) expect(await visit(url)).toBeNull();
  const elsewhere = [await visit(url, "127.0.0.2"), await visit(url, "127.0.0.2")];
  expect(elsewhere).not.toContain(null);

  opened[0]!.destroy();
  await eventually("there is a place again", async () => {
    const socket = await visit(url);
    if (socket !== null) opened.push(socket);
    return socket !== null;
  });
  expect(await visit(url)).toBeNull();
  for (const socket of [...opened, ...elsewhere]) socket?.destroy();
  await eventually("all is as before", async () => (await rig.chat({ model: "m" }).catch(() => null))?.status === 200);
});

test("unless it is set, one address has as many as it likes", async () => {
  await using rig = await setUp({ a: {} });
  const sockets = await Promise.all(Array.from({ length: 300 }, () => visit(rig.gateway.url)));
  expect(sockets.filter((socket) => socket === null)).toEqual([]);
  for (const socket of sockets) socket?.destroy();
});

test("whoever leaves frees one place, of its own address, once", () => {
  const counts = new ConnectionsByNetwork<object>();
  const [first, second, third, stranger] = [{}, {}, {}, {}];
  expect([counts.add(first, "10.0.0.1", 2), counts.add(second, "::ffff:10.0.0.1", 2), counts.add(third, "10.0.0.1", 2)]).toEqual([
    true,
    true,
    false,
  ]);
  counts.delete(third);
  counts.delete(stranger);
  expect(counts.add(third, "10.0.0.1", 2)).toBe(false);
  counts.delete(first);
  counts.delete(first);
  expect([counts.add(third, "10.0.0.1", 2), counts.add(first, "10.0.0.1", 2)]).toEqual([true, false]);
  // Whoever has one address of version 6 has 2^64 of them.
  expect([counts.add({}, "2001:db8::1", 1), counts.add({}, "2001:db8::2", 1), counts.add({}, "2001:db8:0:1::1", 1)]).toEqual([
    true,
    false,
    true,
  ]);
  for (const one of [second, third]) counts.delete(one);
  expect(counts.size).toBe(2);
});
