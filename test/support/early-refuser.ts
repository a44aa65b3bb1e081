import net, { type AddressInfo } from "node:net";

/**
 * A server that refuses each request at its first bytes and closes at once, with the rest unread: the system then resets the
 * connection. In a process of its own, so that it acts while its client writes. Says its port.
 */
const body = "<html><h1>413 Request Entity Too Large</h1></html>";
const refusal = `HTTP/1.1 413 Payload Too Large\r\nconnection: close\r\ncontent-type: text/html\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const server = net.createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", () => {
    socket.pause();
    socket.write(refusal, () => socket.destroy());
  });
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
