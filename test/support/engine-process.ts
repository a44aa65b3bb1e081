import { expect } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

/** A real engine in a process of its own. */
export interface EngineProcess {
  readonly socket: string;
  readonly child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  post(path: string, body: unknown, signal?: AbortSignal): Promise<Response>;
  ask(path: string, init?: RequestInit): Promise<Response>;
}

export const engineMain = resolve(import.meta.dir, "../../packages/embedded/src/main.ts");

/** Starts an engine on a socket, and waits until it says that it is ready. */
export async function startEngine(socket: string, engine: string, ...flags: readonly string[]): Promise<EngineProcess> {
  const child = Bun.spawn([process.execPath, engineMain, "--engine", engine, "--socket", socket, ...flags], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const lines = child.stdout.getReader();
  const { value } = await lines.read();
  lines.releaseLock();
  expect(JSON.parse(new TextDecoder().decode(value))).toEqual({ event: "ready" });
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`http://engine${path}`, { ...init, unix: socket });
  const post = (path: string, body: unknown, signal?: AbortSignal): Promise<Response> =>
    ask(path, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  return { socket, child, ask, post };
}

/** Ends an engine as the gateway does: with its standard input. */
export async function endEngine(engine: EngineProcess): Promise<void> {
  await engine.child.stdin.end();
  await engine.child.exited;
}

/** What an engine refused, and why. */
export async function engineRefusal(response: Promise<Response>): Promise<{ status: number; code: unknown; param: unknown }> {
  const answer = await response;
  const { error } = (await answer.json()) as { error: Record<string, unknown> };
  expect(Object.keys(error).toSorted()).toEqual(["code", "message", "param", "type"]);
  expect(typeof error["message"]).toBe("string");
  return { status: answer.status, code: error["code"], param: error["param"] };
}

/** The events of a stream without its end mark. */
export function engineEvents(text: string): readonly unknown[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "" && block !== "data: [DONE]")
    .map((block) => JSON.parse(block.replace(/^data: /, "")) as unknown);
}

export const onLinux = existsSync("/proc/self/stat");

/** Processor time of an engine so far, in milliseconds. */
export function processorMs({ child }: EngineProcess): number {
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export const engineSpeechPath = "/v1/audio/speech";
export const spokenLine = { model: "flite", voice: "kal16", input: "Hello there.", response_format: "pcm" };

/** The form of a transcription request. */
export function transcriptionForm(fields: Readonly<Record<string, string | readonly string[]>>, file: Blob | string | null): FormData {
  const data = new FormData();
  for (const [name, values] of Object.entries({ model: "whisper-base", ...fields })) {
    for (const value of [values].flat()) data.append(name, value);
  }
  if (typeof file === "string") data.append("file", file);
  else if (file !== null) data.append("file", file, "speech.wav");
  return data;
}

/** What a model hears in a recording. */
export async function transcriptOf(ask: EngineProcess["ask"], model: string, audio: Blob): Promise<string> {
  const response = await ask("/v1/audio/transcriptions", { method: "POST", body: transcriptionForm({ model }, audio) });
  expect(response.status).toBe(200);
  return ((await response.json()) as { readonly text: string }).text;
}
