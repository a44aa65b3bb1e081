/**
 * An engine that does as its test says. Its arguments: how it behaves, a file in which it signs when it starts, and the
 * socket. Where it serves, a request's body tells it what to do.
 */
import { appendFileSync, readFileSync, rmSync } from "node:fs";

const [manner = "", diary = "", engine = "", socket = ""] = process.argv.slice(2);

const grownBytes = 300 * 1024 * 1024;

appendFileSync(diary, `${engine} ${process.pid}\n`);

if (manner === "stubborn") {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1_000);
} else {
  process.stdin.on("end", () => process.exit(0));
  process.stdin.resume();
}

if (manner === "crashing") {
  process.stderr.write("cannot find\nmy weights\n");
  process.exit(3);
}
if (manner === "noisy") {
  process.stderr.write(`${"x".repeat(1_000_000)} the end`, () => process.exit(4));
} else if (manner === "garbage") {
  process.stdout.write(`hello\n{"event":\n{}\nnull\n"ready"\n{"event":"unready"}\n\u0000\u00ff\n${"y".repeat(300_000)}{"event":"ready"}\n`);
  serve();
  process.stdout.write('{"event":"re');
  setTimeout(() => process.stdout.write('ady","model":"m"}\r\nmore garbage'), 50);
} else if (manner === "slow") {
  setTimeout(() => {
    serve();
    ready();
  }, 400);
} else if (manner !== "silent") {
  serve();
  ready();
}

function ready(): void {
  process.stdout.write('{"event":"ready"}\n');
}

function serve(): void {
  const server: Bun.Server<undefined> = Bun.serve({
    unix: socket,
    maxRequestBodySize: 1024 * 1024 * 1024,
    fetch: async (request) => {
      const body = await request.bytes();
      const word = body.length < 200 ? new TextDecoder().decode(body) : "";
      if (word.startsWith("exit ")) {
        const code = Number(word.slice(5));
        setTimeout(() => process.exit(code), 10);
        return new Response("bye");
      }
      if (word.startsWith("complain ")) process.stderr.write(`${word.slice(9)}\n`);
      if (word.startsWith("say ")) {
        process.stdout.write(`{"event":"${word.slice(4)}"}\n`);
        return new Response("said");
      }
      if (word.startsWith("spin ")) {
        process.stdout.write(`{"event":"${word.slice(5)}"}\n`);
        setTimeout(() => {
          for (;;);
        }, 50);
        return new Response("said");
      }
      if (word === "grow") {
        const held = Buffer.alloc(grownBytes, 1);
        await Bun.sleep(60_000);
        return new Response(String(held.length));
      }
      if (word === "wait") await Bun.sleep(60_000);
      if (word === "crash") process.kill(process.pid, "SIGKILL");
      // The first one leaves without an answer, as one does that was idle; the second one answers.
      if (word.startsWith("once ") && readFileSync(diary, "utf8").trim().split("\n").length === 1) {
        if (word === "once leave") process.exit(0);
        void server.stop(true);
        rmSync(socket, { force: true });
        setTimeout(() => process.exit(0), 100);
      }
      if (word === "stream") return new Response(endless(request.signal));
      return Response.json({ engine, pid: process.pid, bytes: body.length, host: request.headers.get("host"), url: request.url });
    },
  });
}

function endless(signal: AbortSignal): ReadableStream {
  signal.addEventListener("abort", () => appendFileSync(diary, `aborted ${process.pid}\n`));
  return new ReadableStream({
    async pull(controller) {
      await Bun.sleep(5);
      if (signal.aborted) controller.close();
      else controller.enqueue(new TextEncoder().encode("tick "));
    },
  });
}
