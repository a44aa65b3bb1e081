import { dlopen, FFIType, ptr } from "bun:ffi";

/**
 * A port that refuses connections, and stays so as long as this process lives: it is bound, on every address of the
 * machine, and nobody listens on it. One that was only free for a moment could be given to whoever asks next.
 */
export function refusedPort(): number {
  const descriptor = libc.socket(internet, stream, 0);
  const address = new Uint8Array(16);
  // The system names the port: what is zero is left to it. The systems of BSD begin with a length.
  address.set(process.platform === "linux" ? [internet, 0] : [address.length, internet]);
  if (libc.bind(descriptor, ptr(address), address.length) !== 0) throw new Error("no port could be bound");
  if (libc.getsockname(descriptor, ptr(address), ptr(new Uint32Array([address.length]))) !== 0) throw new Error("the port has no name");
  return new DataView(address.buffer).getUint16(2);
}

/** The address of an upstream that refuses the connection. */
export function refusedUrl(): string {
  return `http://127.0.0.1:${refusedPort()}/v1`;
}

const internet = 2;
/** On Linux, one that no child inherits. */
const stream = process.platform === "linux" ? 1 | 0x80000 : 1;

const { symbols: libc } = dlopen(process.platform === "linux" ? "libc.so.6" : "libSystem.B.dylib", {
  socket: { args: [FFIType.int, FFIType.int, FFIType.int], returns: FFIType.int },
  bind: { args: [FFIType.int, FFIType.ptr, FFIType.u32], returns: FFIType.int },
  getsockname: { args: [FFIType.int, FFIType.ptr, FFIType.ptr], returns: FFIType.int },
});
