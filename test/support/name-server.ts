import dgram from "node:dgram";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { product } from "./product.ts";

/**
 * A name server that answers, fails or says nothing, as the name asked for begins: `good-`, `failing-` or `silent-`. It listens at an
 * address of the loopback of its own, and `command` starts the product in a view of the files where that is the machine's name server.
 */
export interface NameServer extends AsyncDisposable {
  /** In place of the product's own command. */
  readonly command: readonly string[];
  /** Questions so far, by name. */
  readonly asked: ReadonlyMap<string, number>;
}

/** The reason where it cannot be had: port 53 and a mount of one's own are for root. */
export async function startNameServer(): Promise<NameServer | { readonly skipped: string }> {
  if (process.platform !== "linux") return { skipped: "names are looked up by other means here" };
  const probe = Bun.spawnSync(["unshare", "-m", "true"], { stdout: "ignore", stderr: "ignore" });
  if (!probe.success) return { skipped: "nobody may mount anything here" };
  const asked = new Map<string, number>();
  const socket = dgram.createSocket("udp4");
  socket.on("message", (question, { port, address: from }) => {
    const { name, type, end } = questionOf(question);
    asked.set(name, (asked.get(name) ?? 0) + 1);
    if (!name.startsWith("silent-")) socket.send(answerTo(question.subarray(0, end), name, type), port, from);
  });
  const bound = await new Promise<Error | null>((settle) => {
    socket.once("error", settle);
    socket.bind(53, address, () => settle(null));
  });
  if (bound !== null) return { skipped: `port 53 of ${address} cannot be had: ${bound.message}` };
  const directory = await mkdtemp(join(tmpdir(), "sluice-names-"));
  const file = join(directory, "resolv.conf");
  await writeFile(file, `nameserver ${address}\noptions timeout:5 attempts:2\n`);
  return {
    command: ["unshare", "-m", "sh", "-c", `mount --bind ${file} /etc/resolv.conf && exec sh "$0" "$@"`, product],
    asked,
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await rm(directory, { recursive: true });
    },
  };
}

const address = "127.0.0.153";

interface Question {
  readonly name: string;
  readonly type: number;
  readonly end: number;
}

function questionOf(message: Buffer): Question {
  const labels: string[] = [];
  let at = headBytes;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join("."), type: message.readUInt16BE(at + 1), end: at + 5 };
}

/** The question again, and behind it where a good name leads: to this machine. */
function answerTo(question: Buffer, name: string, type: number): Buffer {
  const isFailing = name.startsWith("failing-");
  const answers = !isFailing && type === addressType ? [addressRecord] : [];
  const head = Buffer.from(question.subarray(0, headBytes));
  head.writeUInt16BE(isFailing ? 0x8182 : 0x8180, 2);
  head.writeUInt16BE(answers.length, 6);
  head.writeUInt32BE(0, 8);
  return Buffer.concat([head, question.subarray(headBytes), ...answers]);
}

const headBytes = 12;
const addressType = 1;
/** The name of the question, an address, good for a second: 127.0.0.1. */
const addressRecord = Buffer.from([0xc0, headBytes, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
