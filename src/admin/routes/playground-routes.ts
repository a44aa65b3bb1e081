import { z } from "zod";
import { AdminError } from "../admin-error.ts";
import { RelayedResult, route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";
import { line } from "../fields/scalars.ts";

const key = z.string().min(1).max(4096).describe("A client key. Its limits and its budget apply, and the receipt is its own.");
const request = z.record(z.string().max(200), z.unknown()).describe("As a client would send it.");

/** A model of this machine may take its time. */
const patienceMs = 5 * 60_000;

/**
 * Requests of clients, made through the admin listener: a page of the console may not connect to another port than its own. They go to the
 * data plane over a connection of this machine, with a client key, and are calls like any other.
 */
export const playgroundRoutes: readonly AdminRoute[] = [
  route({
    method: "POST",
    path: "/admin/api/playground/chat",
    access: "admin",
    summary: "Makes a chat completion with a client key, and passes the answer on as it comes.",
    // Images are part of it.
    bodyBytesMax: 12 * 1024 * 1024,
    body: z.strictObject({ key, request }),
    answer: z.string(),
    text: "text/event-stream",
    answerMs: patienceMs,
    handle: ({ body, services, signal }) => relayed({ services, signal }, "/v1/chat/completions", body.key, JSON.stringify(body.request)),
  }),
  route({
    method: "POST",
    path: "/admin/api/playground/speech",
    access: "admin",
    summary: "Speaks a text with a client key.",
    body: z.strictObject({ key, request }),
    answer: z.string(),
    text: "audio/mpeg",
    answerMs: patienceMs,
    handle: ({ body, services, signal }) => relayed({ services, signal }, "/v1/audio/speech", body.key, JSON.stringify(body.request)),
  }),
  route({
    method: "POST",
    path: "/admin/api/playground/transcription",
    access: "admin",
    summary: "Transcribes a recording of at most 8 MiB with a client key.",
    bodyBytesMax: 12 * 1024 * 1024,
    body: z.strictObject({
      key,
      file: z.string().min(1).max(11_500_000).describe("The recording, in base64."),
      file_name: line(200),
      fields: z
        .record(z.string().max(100), z.string().max(10_000))
        .describe("The other fields of the form, such as `model` and `response_format`."),
    }),
    answer: z.string(),
    text: "application/json",
    answerMs: patienceMs,
    handle: ({ body, services, signal }) => {
      const form = new FormData();
      for (const [name, value] of Object.entries(body.fields)) form.append(name, value);
      form.append("file", new File([Buffer.from(body.file, "base64")], body.file_name));
      return relayed({ services, signal }, "/v1/audio/transcriptions", body.key, form);
    },
  }),
];

interface PlaygroundParts {
  readonly services: Services;
  readonly signal: AbortSignal;
}

async function relayed(
  { services, signal }: PlaygroundParts,
  path: string,
  token: string,
  body: string | FormData,
): Promise<RelayedResult | AdminError> {
  // What is not a token would not even be sent.
  if (!/^[\x21-\x7e]+$/.test(token)) return new AdminError(400, "invalid_value", "The field 'key' must be a client key.", "key");
  const headers = { authorization: `Bearer ${token}`, ...(typeof body === "string" ? { "content-type": "application/json" } : {}) };
  const response = await services.dataPlane(path, { method: "POST", headers, body, signal });
  return response === null ? unreachable : new RelayedResult(response);
}

const unreachable = new AdminError(
  503,
  "data_plane_unreachable",
  "The port for clients cannot be reached from this process. If it asks clients for certificates, use a client of your own.",
);
