/**
 * Sockets and nothing else: what a client sends goes to the upstream, and what comes back goes to the client, with back-pressure. Its memory and
 * its CPU time are those of the runtime's own sockets, below which no gateway on this runtime can be.
 */
const { hostname, port } = new URL(process.argv[2] ?? "");

interface End {
  other: Bun.Socket<End> | null;
  /** What was received and could not be written to the other end yet. */
  waiting: Uint8Array[];
}

const handlers: Bun.SocketHandler<End> = {
  data(socket, bytes) {
    const { data: end } = socket;
    const written = end.other === null || end.waiting.length > 0 ? 0 : Math.max(0, end.other.write(bytes));
    if (written === bytes.length) return;
    end.waiting.push(bytes.slice(written));
    if (end.other !== null) socket.pause();
  },
  drain: (socket) => passOn(socket.data.other),
  close: ({ data: { other } }) => void other?.end(),
  error: (socket) => void socket.end(),
};

const listener = Bun.listen<End>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    ...handlers,
    open(client) {
      client.data = { other: null, waiting: [] };
      void Bun.connect<End>({ hostname, port: Number(port), data: { other: client, waiting: [] }, socket: handlers }).then(
        (upstream) => {
          client.data.other = upstream;
          passOn(client);
        },
        () => client.end(),
      );
    },
  },
});
process.stdin.on("end", () => process.exit(0)).resume();
console.log(JSON.stringify({ event: "listening", url: `http://127.0.0.1:${listener.port}` }));

/** Writes what waits at one end to the other. */
function passOn(from: Bun.Socket<End> | null): void {
  if (from === null || from.data.other === null) return;
  const { other, waiting } = from.data;
  for (let bytes = waiting[0]; bytes !== undefined; bytes = waiting[0]) {
    const written = Math.max(0, other.write(bytes));
    if (written < bytes.length) {
      waiting[0] = bytes.subarray(written);
      return;
    }
    waiting.shift();
  }
  from.resume();
}
