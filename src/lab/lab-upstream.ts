import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { speechReply, transcriptionReply } from "./lab-audio.ts";
import { chatReply, readLabRequest } from "./lab-chat.ts";
import { behave, type LabBehaviour, type LabReply, type LabWire } from "./lab-faults.ts";

/** A scripted upstream on a loopback port of its own. It exists only while a run needs it. */
export class LabUpstream {
  /** How many requests it got. */
  asked = 0;
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    private readonly behaviour: LabBehaviour,
  ) {
    server.maxConnections = connectionsMax;
    server.on("connection", (socket) => this.receive(socket));
  }

  static async open(behaviour: LabBehaviour): Promise<LabUpstream> {
    const server = createServer();
    const upstream = new LabUpstream(server, behaviour);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, "127.0.0.1", resolve);
    });
    return upstream;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private receive(socket: Socket): void {
    this.sockets.add(socket);
    const wire = wireOf(socket);
    let received = "";
    let isBusy = false;
    socket.setNoDelay(true);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("data", (bytes: Buffer) => {
      received += bytes.toString("latin1");
      const request = isBusy ? null : requestIn(received);
      if (request === null) {
        if (received.length > requestBytesMax) socket.destroy();
        return;
      }
      received = "";
      isBusy = true;
      this.answer(request, wire).then(
        (isKept) => (isKept ? (isBusy = false) : socket.end()),
        () => socket.destroy(),
      );
    });
  }

  /** Whether the connection may be used again. Whatever the lab has no answer to ends it. */
  private async answer(request: LabHttpRequest, wire: LabWire): Promise<boolean> {
    this.asked += 1;
    const reply = replyTo(request);
    return reply !== null && (await behave(this.behaviour, wire, reply)) === "kept";
  }
}

/** More than a run has calls at a time. */
const connectionsMax = 128;
const requestBytesMax = 1024 * 1024;

interface LabHttpRequest {
  readonly path: string;
  readonly body: string;
}

/** A request that is complete; else null. */
function requestIn(received: string): LabHttpRequest | null {
  const at = received.indexOf("\r\n\r\n");
  if (at < 0) return null;
  const head = received.slice(0, at);
  const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
  const body = received.slice(at + 4);
  return body.length < length ? null : { path: head.split(" ", 2)[1] ?? "", body };
}

function replyTo({ path, body }: LabHttpRequest): LabReply | null {
  if (path.endsWith("/audio/speech")) return speechReply;
  if (path.endsWith("/audio/transcriptions")) return transcriptionReply;
  const asked = readLabRequest(body);
  return asked === null ? null : chatReply(asked);
}

function wireOf(socket: Socket): LabWire {
  /** Rejects when the peer leaves before `start` has called back. */
  const unlessGone = <T>(start: (resolve: (value: T) => void) => (() => void) | void): Promise<T> =>
    new Promise((resolve, reject) => {
      if (socket.destroyed) return reject(new Error("the peer has left"));
      const leave = (): void => {
        stop?.();
        reject(new Error("the peer has left"));
      };
      socket.once("close", leave);
      const stop = start((value) => {
        socket.off("close", leave);
        resolve(value);
      });
    });
  return {
    write: (text) => unlessGone<void>((resolve) => void socket.write(text, "latin1", () => resolve())),
    pause: (ms) =>
      unlessGone<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        return () => clearTimeout(timer);
      }),
    hold: () => unlessGone<never>(() => undefined),
    finish: () => socket.end(),
    reset: () => socket.resetAndDestroy(),
  };
}
