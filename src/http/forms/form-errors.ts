import { failure, type Failure } from "../../operations/failure.ts";

/** The errors in forms. Each message says how to fix the request. */
export const notForm = formError("not a form", {
  message: "The request body must be a form: send 'Content-Type: multipart/form-data' with the audio as 'file' (curl -F file=@audio.mp3).",
  status: 415,
  code: "unsupported_media_type",
});

export const notImageForm = formError("not a form", {
  message:
    "The request body must be a form: send 'Content-Type: multipart/form-data' with the picture as 'image' (curl -F image=@picture.png).",
  status: 415,
  code: "unsupported_media_type",
});

export const badBoundary = formError("a form without a usable boundary", {
  message:
    "The 'Content-Type: multipart/form-data' has no valid boundary. Do not set this header by hand: your HTTP client adds the boundary.",
});

export const cutOff = formError("a form without its end", {
  message: "The form is not complete: it ended before its closing boundary. Every line of its framing must end with CR LF.",
});

export const partHeadersTooLong = formError("part headers too long", { message: "The headers of a part of the form are too long." });

export const partMalformed = formError("a malformed part", {
  message: "A part of the form is malformed: each needs a header such as 'Content-Disposition: form-data; name=\"model\"'.",
});

export const partUnnamed = formError("a part without a name", {
  message: "A part of the form has no name: each needs a header such as 'Content-Disposition: form-data; name=\"model\"'.",
});

export const nameTooLong = formError("a field name too long", { message: "The name of a field of the form is too long." });

export const tooManyFields = formError("too many fields", { message: "The form has too many fields." });

export const fieldsTooLarge = formError("fields too large together", { message: "The fields of the form are too large, all together." });

export const noFile = formError("no file", {
  message: "The form has no 'file': send the audio as a file part (curl -F file=@audio.mp3).",
  code: "missing_required_parameter",
  param: "file",
});

export const fileTwice = formError("more than one file", {
  message: "The form has more than one 'file': send one file with each request.",
  param: "file",
});

export const fileEmpty = formError("an empty file", { message: "The file is empty.", param: "file" });

export const fileAsText = formError("the file as a plain field", {
  message: "The field 'file' is plain text: send it as a file part, with a file name (curl -F file=@audio.mp3, with the @).",
  param: "file",
});

export function otherFile(name: string): Failure {
  return formError("an unknown file part", {
    message: `The form has an unknown file part '${shown(name)}': send the audio as 'file', and everything else as plain fields.`,
    param: shown(name),
  });
}

export function fieldTooLarge(name: string, bytesMax: number): Failure {
  const message = `The field '${shown(name)}' is too large: at most ${bytesMax / 1024} KiB are allowed.`;
  return formError("a field too large", { message, param: shown(name) });
}

export function fieldNotText(name: string): Failure {
  return formError("a field that is not UTF-8", { message: `The field '${shown(name)}' is not valid UTF-8.`, param: shown(name) });
}

export function encodedPart(name: string, encoding: string): Failure {
  return formError("an encoded part", {
    message: `The part '${shown(name)}' has the content-transfer-encoding '${shown(encoding)}': send it as it is, in binary.`,
    param: shown(name),
  });
}

/** The exact message of the OpenAI API, which differs from that of our other limits. */
export function fileTooLarge(bytesMax: number, bytesRead: number): Failure {
  return failure("invalid_request", "the file is too large", {
    message: `Maximum content size limit (${bytesMax}) exceeded (${bytesRead} bytes read)`,
    status: 413,
    type: "server_error",
  });
}

export function tooSlow(readMs: number): Failure {
  return failure("invalid_request", "the form came too slowly", {
    message: `The request body was not complete within ${Math.round(readMs / 1000)} seconds.`,
    status: 408,
  });
}

export function tooLittle(bytes: number, ms: number): Failure {
  return failure("invalid_request", "the form came too slowly", {
    message: `The request body came too slowly: less than ${bytes / 1024} KiB of it arrived in ${Math.round(ms / 1000)} seconds.`,
    status: 408,
  });
}

export function stoppedComing(idleMs: number): Failure {
  return failure("invalid_request", "the form stopped coming", {
    message: `The request body stopped arriving: nothing was received for ${Math.round(idleMs / 1000)} seconds.`,
    status: 408,
  });
}

export const clientLeft = failure("client_gone", "the client left while it sent its form");

/** The system's error code, such as ENOSPC, is only logged. */
export function notStored(error: unknown): Failure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
  return failure("internal", `an upload could not be written to the temporary directory: ${code}`, {
    message: "The gateway has no room to store this upload at the moment. Try again later.",
  });
}

interface ErrorFields {
  readonly message: string;
  readonly status?: number;
  readonly code?: string;
  readonly param?: string;
}

function formError(detail: string, fields: ErrorFields): Failure {
  return failure("invalid_request", detail, { status: 400, type: "invalid_request_error", ...fields });
}

function shown(name: string): string {
  return name.slice(0, 200);
}
