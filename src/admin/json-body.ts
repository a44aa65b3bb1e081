import { AdminError } from "./admin-error.ts";

export const bodyBytesMax = 256 * 1024;
export const bodyMsUsual = 10_000;

/** Reads a JSON body, with limits on its size and its time. */
export async function readJsonBody(
  request: Request,
  bodyMs: number,
  bytesMax = bodyBytesMax,
): Promise<{ readonly value: unknown } | AdminError> {
  if (!isJson(request.headers.get("content-type"))) {
    return new AdminError(415, "unsupported_media_type", "The request body must be JSON: send 'Content-Type: application/json'.");
  }
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    return new AdminError(
      415,
      "unsupported_media_type",
      "Compressed request bodies are not supported: send the body without 'Content-Encoding'.",
    );
  }
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) return tooLarge(bytesMax);
  const bytes = await withinTime(request, bodyMs, bytesMax);
  return bytes instanceof AdminError ? bytes : parsed(bytes);
}

/** JSON is UTF-8 (RFC 8259, 8.1), so another charset is refused. */
export function isJson(contentType: string | null): boolean {
  return /^application\/json *(?:; *charset=(?:utf-8|"utf-8") *)?$/i.test(contentType ?? "");
}

async function withinTime({ body }: Request, bodyMs: number, bytesMax: number): Promise<Uint8Array | AdminError> {
  if (body === null) return new Uint8Array(0);
  const reader = body.getReader();
  let tooLate = false;
  const timer = setTimeout(() => {
    tooLate = true;
    void reader.cancel().catch(() => undefined);
  }, bodyMs);
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      length += next.value.length;
      if (length > bytesMax) return tooLarge(bytesMax);
      chunks.push(next.value);
    }
    return tooLate ? tooSlow : Buffer.concat(chunks, length);
  } catch {
    return tooLate ? tooSlow : new AdminError(400, "invalid_json", "The request body is incomplete: the connection was closed.");
  } finally {
    clearTimeout(timer);
  }
}

function parsed(bytes: Uint8Array): { readonly value: unknown } | AdminError {
  if (bytes.length === 0) return new AdminError(400, "invalid_json", "The request body is empty: send a JSON object, such as {}.");
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)) as unknown };
  } catch {
    return new AdminError(400, "invalid_json", "The request body is not valid JSON in UTF-8.");
  }
}

function tooLarge(bytesMax: number): AdminError {
  return new AdminError(413, "request_too_large", `The request body is larger than ${bytesMax / 1024} KiB.`, null, { connection: "close" });
}
const tooSlow = new AdminError(408, "request_timeout", "The request body arrived too slowly.", null, { connection: "close" });
