import { startGateway, type Gateway, type LogLine } from "./gateway.ts";
import { chat, openChat, type ChatCall, type ChatOptions, type ChatReply } from "./chat.ts";
import type { RealServer } from "./real-servers.ts";

export const clientKey = "sk-client-of-real-servers";

export type ChannelSettings = Readonly<Record<string, unknown>> & { readonly name: string };

/** The real gateway in front of channels to real servers. */
export async function openRealWorld(
  channels: readonly ChannelSettings[],
  more: Readonly<Record<string, unknown>> = {},
): Promise<RealWorld> {
  const gateway = await startGateway({ config: { keys: [{ name: "app", key: clientKey }], channels, ...more }, readyWithinMs: 20_000 });
  return new RealWorld(gateway);
}

export class RealWorld implements AsyncDisposable {
  readonly gateway: Gateway;
  /** What a client library calls its base URL. */
  readonly baseURL: string;

  constructor(gateway: Gateway) {
    this.gateway = gateway;
    this.baseURL = `${gateway.url}/v1`;
  }

  ask(model: string, body: Readonly<Record<string, unknown>> = {}, options: ChatOptions = {}): Promise<ChatReply> {
    return chat(this.gateway, { ...shortStory, model, ...body }, { key: clientKey, ...options });
  }

  /** The same, returning while the answer is on its way. */
  open(model: string, body: Readonly<Record<string, unknown>> = {}, options: ChatOptions = {}): Promise<ChatCall> {
    return openChat(this.gateway, { ...shortStory, model, ...body }, { key: clientKey, ...options });
  }

  /** Sends a form with a recording; every entry is a field. */
  async transcribe(file: Blob, fields: readonly (readonly [string, string])[], path = "transcriptions"): Promise<Heard> {
    const form = new FormData();
    for (const [name, value] of fields) form.append(name, value);
    form.append("file", file, "speech.wav");
    const response = await fetch(`${this.baseURL}/audio/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${clientKey}` },
      body: form,
    });
    const text = await response.text();
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      channel: response.headers.get("x-sluice-channel"),
      attempts: response.headers.get("x-sluice-attempts"),
      id: response.headers.get("x-request-id") ?? "",
      text,
    };
  }

  /** The access line of a call. */
  line(id: string | null): Promise<LogLine> {
    return this.gateway.waitForLog((line) => line["event"] === "call" && line["id"] === id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway.kill();
  }
}

export interface Heard {
  readonly status: number;
  readonly type: string | null;
  readonly channel: string | null;
  readonly attempts: string | null;
  readonly id: string;
  readonly text: string;
}

const shortStory = { messages: [{ role: "user", content: "Once upon a time" }], max_tokens: 12, temperature: 0 };

/** A stream that would take many seconds: the model may not end by itself. `ignore_eos` is these servers' own field. */
export const longStory = { stream: true, max_tokens: 6_000, ignore_eos: true } as const;

/** Whether the server works on anything. Both spellings of its own list of slots are understood. */
export async function isBusy({ origin }: RealServer, key?: string): Promise<boolean> {
  const response = await fetch(`${origin}/slots`, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  const slots = (await response.json()) as readonly { readonly is_processing?: boolean; readonly state?: number }[];
  return slots.some((slot) => slot.is_processing ?? slot.state !== 0);
}
