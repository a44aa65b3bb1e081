import { isFailure, type Failure } from "../../operations/failure.ts";
import type { FormField, FormFile } from "../../media/stored-file.ts";
import { release } from "../../net/message/message-parser.ts";
import { formSplitter } from "./form-splitter.ts";
import { FormCollector, recordingBytesMax } from "./form-collector.ts";
import { UploadPace, type PaceLimits } from "./upload-pace.ts";
import { badBoundary, clientLeft, cutOff, fileTooLarge, notForm } from "./form-errors.ts";
import { readHeaderValue } from "./header-value.ts";
import type { IncomingRequest } from "../../net/server/incoming-request.ts";
import { decodedBody, type RequestBody } from "../decoded-body.ts";
import { Spool } from "./spool.ts";

/** A form with one file, `file`, which is stored until the form is disposed of. */
export interface Form {
  /** In the order and spelling of the client. */
  readonly fields: readonly FormField[];
  readonly file: FormFile;
  /** The size of the whole body. */
  readonly bytes: number;
  dispose(): void;
}

export interface FormLimits extends PaceLimits {
  readonly fileBytesMax: number;
  /** Where large files are stored; the system's temporary directory by default. */
  readonly directory?: string;
}

/** Rejects a request whose Content-Type is not a form with a boundary. */
export function rejectNotForm(request: IncomingRequest): Failure | null {
  const boundary = boundaryOf(request.header("content-type"));
  return typeof boundary === "string" ? null : boundary;
}

/** The boundary from a Content-Type. */
export function boundaryOf(contentType: string | null): string | Failure {
  if (contentType === null || !/^\s*multipart\/form-data\s*(;|$)/i.test(contentType)) return notForm;
  const boundary = readHeaderValue(contentType)?.parameters.get("boundary");
  // RFC 2046, 5.1.1 allows 70 characters of a smaller set, but some clients use more. None may end with a space.
  return boundary !== undefined && /^[\x20-\x7e]{0,199}[\x21-\x7e]$/.test(boundary) ? boundary : badBoundary;
}

/**
 * Reads a form as it arrives. The disk sets the pace, so little of it is in memory at any time. An error is reported at once,
 * without reading the rest, and leaves nothing behind.
 */
export async function readForm(request: IncomingRequest, limits: FormLimits): Promise<Form | Failure> {
  const boundary = boundaryOf(request.header("content-type"));
  if (typeof boundary !== "string") return boundary;
  const { fileBytesMax } = limits;
  const bodyBytesMax = fileBytesMax + aroundFileBytesMax + recordingBytesMax;
  const declaredBytes = request.body.declaredBytes ?? 0;
  if (declaredBytes > bodyBytesMax) return fileTooLarge(fileBytesMax, declaredBytes);
  const spool = new Spool(limits.directory, declaredBytes);
  const body = decodedBody(request.body, request.header("content-encoding"));
  // `discard` wakes a pending read as if the body had ended.
  const pace = new UploadPace(limits, () => body.discard());
  let form: Form | Failure | null = null;
  try {
    const read = await gather(body, boundary, new FormCollector(spool, fileBytesMax), fileBytesMax, pace);
    form = pace.failure ?? (isFailure(read) ? read : { ...read, dispose: () => spool.dispose() });
    return form;
  } finally {
    pace.end();
    if (form === null || isFailure(form)) {
      spool.dispose();
      body.discard();
    }
  }
}

async function gather(
  body: RequestBody,
  boundary: string,
  draft: FormCollector,
  fileBytesMax: number,
  pace: UploadPace,
): Promise<Omit<Form, "dispose"> | Failure> {
  const splitter = formSplitter(boundary);
  let bytes = 0;
  for (;;) {
    pace.waits();
    const chunk = await body.next();
    pace.came(chunk instanceof Uint8Array ? chunk.length : 0);
    if (chunk === "gone") return clientLeft;
    if (chunk === null) break;
    if (!(chunk instanceof Uint8Array)) return chunk;
    bytes += chunk.length;
    if (bytes > fileBytesMax + aroundFileBytesMax + draft.recordingBytes) return fileTooLarge(fileBytesMax, bytes);
    for (const piece of splitter.pieces(chunk)) {
      const taken = draft.take(piece);
      const failed = taken instanceof Promise ? await taken : taken;
      if (failed !== null) return failed;
    }
    release(chunk);
  }
  if (!splitter.closed) return cutOff;
  const file = await draft.finish();
  return isFailure(file) ? file : { fields: draft.fields, file, bytes };
}

/** Room for the other fields, the headers of the parts and the boundaries. */
const aroundFileBytesMax = 2 * 1024 * 1024;
