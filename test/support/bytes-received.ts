import type { Socket } from "node:net";

/** Everything that a connection brings until it ends, in whatever way. */
export function collected(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(parts)));
  });
}
