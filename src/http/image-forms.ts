import { isFailure, type Failure } from "../operations/failure.ts";
import { readImageForm, type ImageFormPart } from "../operations/passthrough/image-form.ts";
import type { ImageTask } from "../operations/passthrough/passthrough-request.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { boundaryOf } from "./forms/form.ts";
import { cutOff, fieldsTooLarge, notForm, notImageForm, partHeadersTooLong, tooManyFields } from "./forms/form-errors.ts";
import { readPart, type FormPart } from "./forms/form-part.ts";
import { formSplitter } from "./forms/form-splitter.ts";
import { readSentBody } from "./json-endpoints.ts";
import type { RequestContext } from "./request-context.ts";

/** POST /v1/images/edits. */
export const imageEdits: Endpoint = endpoint("edits");
/** POST /v1/images/variations. */
export const imageVariations: Endpoint = endpoint("variations");

function endpoint(task: ImageTask): Endpoint {
  return {
    operation: "image",
    surface: null,
    displayName: `image ${task}`,
    rejectEarly: (request) => {
      const boundary = boundaryOf(request.header("content-type"));
      return typeof boundary === "string" ? null : boundary === notForm ? notImageForm : boundary;
    },
    read: (context) => read(context, task),
  };
}

/** A few pictures, which are no larger than those that come in the JSON of a chat, and are held in memory as those are. */
async function read(context: RequestContext, task: ImageTask): Promise<ParsedRequest | Failure> {
  const boundary = boundaryOf(context.request.header("content-type"));
  if (typeof boundary !== "string") return boundary;
  const body = await readSentBody(context);
  if (isFailure(body)) return body;
  const parts = partsIn(body, boundary);
  if (isFailure(parts)) return parts;
  const ask = readImageForm(task, named(parts, context.pathModel), `sluice-form-${crypto.randomUUID()}`);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
}

function partsIn(body: Uint8Array, boundary: string): readonly ImageFormPart[] | Failure {
  const splitter = formSplitter(boundary);
  const parts: ImageFormPart[] = [];
  let part: FormPart | null = null;
  let content: Uint8Array = nothing;
  let plainBytes = 0;
  for (const piece of splitter.pieces(body)) {
    switch (piece.kind) {
      case "headers": {
        const read = readPart(piece.block);
        if (isFailure(read)) return read;
        if (parts.length === partsMax) return tooManyFields;
        part = read;
        content = nothing;
        break;
      }
      case "content":
        // The body is one chunk, so that the content of a part is one piece.
        content = piece.bytes;
        if (part?.fileName === null) plainBytes += content.length;
        if (plainBytes > plainBytesMax) return fieldsTooLarge;
        break;
      case "part-end":
        if (part !== null) parts.push({ ...part, content });
        break;
      case "headers-too-long":
        return partHeadersTooLong;
    }
  }
  return splitter.closed ? parts : cutOff;
}

const nothing = new Uint8Array(0);
const partsMax = 100;
const plainBytesMax = 1024 * 1024;

/** The parts as if the client had named the model there. */
function named(parts: readonly ImageFormPart[], model: string | null): readonly ImageFormPart[] {
  if (model === null) return parts;
  const content = new TextEncoder().encode(model);
  return [{ name: "model", fileName: null, type: null, content }, ...parts.filter(({ name }) => name !== "model")];
}
