import net, { type Socket } from "node:net";

/**
 * An address that neither takes a connection nor refuses it: a listener that is stopped, and its queue full. The kernel
 * then drops every further attempt, as a firewall would.
 */
export async function digBlackHole(): Promise<BlackHole> {
  const child = Bun.spawn([process.execPath, "-e", listener], { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
  const { value } = await child.stdout.getReader().read();
  const port = Number(new TextDecoder().decode(value));
  child.kill("SIGSTOP");
  const queued: Socket[] = [];
  const end = async (): Promise<void> => {
    for (const socket of queued) socket.destroy();
    child.kill("SIGKILL");
    await child.exited;
  };
  for (let round = 0; round < roundsMax; round += 1) {
    const batch = await Promise.all(Array.from({ length: batchSize }, () => connect(port, queued)));
    if (!batch.includes(true)) return { url: `http://127.0.0.1:${port}/v1`, end };
  }
  await end();
  throw new Error("the queue of the stopped listener never filled");
}

export interface BlackHole {
  readonly url: string;
  readonly end: () => Promise<void>;
}

const listener = 'console.log(Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } }).port)';
const batchSize = 128;
const roundsMax = 40;
/** On the loopback a connection that is not made by now was dropped. */
const patienceMs = 700;

/** Whether the connection was made; kept either way, so that the queue stays full. */
function connect(port: number, kept: Socket[]): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: "127.0.0.1", port });
    const timer = setTimeout(() => resolve(false), patienceMs);
    kept.push(socket);
    socket.on("error", () => resolve(false));
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
