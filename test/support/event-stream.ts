import { crc32 } from "node:zlib";

/** One message in the framing of AWS event streams, whose headers are texts. */
export function eventStreamMessage(headers: Readonly<Record<string, string>>, payload: string | Uint8Array): Uint8Array {
  const fields = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(Buffer.byteLength(value));
      return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([7]), length, Buffer.from(value)]);
    }),
  );
  const body = Buffer.from(payload);
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + fields.length + body.length, 0);
  prelude.writeUInt32BE(fields.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, fields, body]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(message));
  return new Uint8Array(Buffer.concat([message, checksum]));
}

/** An event as the service sends it, with the filler that it adds. */
export function awsEvent(type: string, payload: Readonly<Record<string, unknown>>): Uint8Array {
  const headers = { ":event-type": type, ":content-type": "application/json", ":message-type": "event" };
  return eventStreamMessage(headers, JSON.stringify({ ...payload, p: "abcdefgh" }));
}

export function awsException(type: string, message: string): Uint8Array {
  const headers = { ":exception-type": type, ":content-type": "application/json", ":message-type": "exception" };
  return eventStreamMessage(headers, JSON.stringify({ message }));
}
