// Needs: alone. It makes promises about real time.
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { isFailure } from "../../src/operations/failure.ts";
import { eventually } from "../support/eventually.ts";
import type { Measured } from "../support/form-process.ts";
import { field, file, framed, hashOf, openFormServer, type FormServer, type Seen } from "../support/form-server.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { rawRequest } from "../support/raw-request.ts";
import { RawResponse } from "../support/raw-response.ts";

setDefaultTimeout(60_000);

const megabyte = 1_000_000;
const boundary = "boundary";
const type = `multipart/form-data; boundary=${boundary}`;

function upload(bytes: number): Buffer {
  const sound = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += 4) sound.writeUInt32LE(Math.imul(at, 2_654_435_761) >>> 0, at);
  return framed([field("model", "m"), file(sound)], boundary);
}

describe("a client that leaves", () => {
  let server: FormServer;

  afterEach(async () => {
    await server.close();
  });

  test.each(["close", "reset"] as const)("at any megabyte of its upload (by %s) leaves no descriptor and no file", async (how) => {
    server = openFormServer();
    const body = upload(12 * megabyte);
    const head = Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`);
    let spilled = 0;
    for (let megabytes = 0; megabytes <= 12; megabytes += 1) {
      const connection = await RawConnection.open(server.url);
      await connection.send(Buffer.concat([head, body.subarray(0, megabytes * megabyte)]));
      await eventually("it is read", () => server.begun() === megabytes + 1);
      if (megabytes > 6) {
        await eventually("it is on the disk", () => server.openFiles() === 1);
        spilled += 1;
        expect(readdirSync(server.directory)).toEqual([]);
      }
      connection[how]();
      await eventually("it is noticed", () => server.outcomes.length === megabytes + 1);
      const outcome = server.outcomes[megabytes];
      expect(outcome !== undefined && isFailure(outcome) && outcome.kind).toBe("client_gone");
      await eventually("nothing is open", () => server.openFiles() === 0);
      expect(readdirSync(server.directory)).toEqual([]);
    }
    expect(spilled).toBe(6);
  });
});

describe("many uploads at once", () => {
  test("of 25 MB, eight of them, cost little memory and hold up nobody", async () => {
    await withProcess(async ({ url, directory, ask }) => {
      const body = upload(25 * megabyte);
      const expected = hashOf(body.subarray(body.indexOf("audio/wav\r\n\r\n") + 13, body.lastIndexOf(`\r\n--${boundary}--`)));
      await rawRequest(url, { body: upload(3 * megabyte), headers: { "Content-Type": type } });
      await ask("mark");
      const answers = await Promise.all(Array.from({ length: 8 }, () => sendPaced(url, body)));
      for (const { hash, length } of answers) expect([length, hash]).toEqual([25 * megabyte, expected]);
      const measured = await ask<Measured>("tell");
      console.info(
        `8 x 25 MB: ${(measured.growthBytes / megabyte).toFixed(1)} MB of growth, timers ${measured.lateMs.toFixed(1)} ms late (p99)`,
      );
      expect(measured.growthBytes).toBeLessThan(40 * megabyte);
      await eventually("nothing is open", async () => (await ask<Measured>("tell")).openFiles === 0);
      expect(readdirSync(directory)).toEqual([]);
    });
  });

  test("that wait in the middle hold what they sent, and little more", async () => {
    const server = openFormServer();
    try {
      const body = upload(8 * megabyte);
      const head = Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`);
      const connections = await Promise.all(Array.from({ length: 16 }, () => RawConnection.open(server.url)));
      await Promise.all(connections.map((connection) => connection.send(Buffer.concat([head, body.subarray(0, -1)]))));
      await eventually("all are on the disk", () => server.openFiles() === 16);
      const responses = connections.map(async (connection) => {
        await connection.send(body.subarray(-1));
        return connection.receive(new RawResponse());
      });
      expect((await Promise.all(responses)).map(({ status }) => status)).toEqual(connections.map(() => 200));
      for (const connection of connections) connection.close();
      await eventually("nothing is open", () => server.openFiles() === 0);
    } finally {
      await server.close();
    }
  });
});

describe("a process that is killed", () => {
  test("in the middle of an upload leaves no file", async () => {
    await withProcess(async ({ url, directory, ask, kill }) => {
      const body = upload(12 * megabyte);
      const connection = await RawConnection.open(url);
      await connection.send(Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`));
      await connection.send(body.subarray(0, -1));
      await eventually("it is on the disk", async () => (await ask<Measured>("tell")).openFiles === 1);
      await kill();
      expect(readdirSync(directory)).toEqual([]);
      rmSync(directory, { recursive: true });
      connection.close();
    });
  });
});

interface ServerProcess {
  readonly url: string;
  readonly directory: string;
  readonly ask: <T>(question: "mark" | "tell") => Promise<T>;
  readonly kill: () => Promise<void>;
}

async function withProcess(use: (server: ServerProcess) => Promise<void>): Promise<void> {
  const child = Bun.spawn([process.execPath, resolve(import.meta.dir, "../support/form-process.ts")], { stdin: "pipe", stdout: "pipe" });
  const lines = linesOf(child.stdout);
  const ended = setTimeout(() => child.kill("SIGKILL"), 30_000);
  try {
    const place = (await lines.next()) as Pick<ServerProcess, "url" | "directory">;
    await use({
      ...place,
      ask: async <T>(question: string): Promise<T> => {
        await child.stdin.write(`${question}\n`);
        await child.stdin.flush();
        return (await lines.next()) as T;
      },
      kill: async () => {
        child.kill("SIGKILL");
        await child.exited;
      },
    });
  } finally {
    if (child.exitCode === null && child.signalCode === null) await child.stdin.end();
    await child.exited;
    clearTimeout(ended);
  }
}

async function sendPaced(url: string, body: Buffer): Promise<Seen> {
  const connection = await RawConnection.open(url);
  try {
    await connection.send(Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`));
    for (let at = 0; at < body.length; at += 65_536) await connection.send(body.subarray(at, at + 65_536));
    return JSON.parse((await connection.receive(new RawResponse())).text) as Seen;
  } finally {
    connection.close();
  }
}

/** What a process prints, one document on each line. */
function linesOf(stream: ReadableStream<Uint8Array>): { next(): Promise<unknown> } {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  return {
    async next() {
      while (!text.includes("\n")) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the process ended");
        text += decoder.decode(value, { stream: true });
      }
      const end = text.indexOf("\n");
      const line = text.slice(0, end);
      text = text.slice(end + 1);
      return JSON.parse(line) as unknown;
    },
  };
}
