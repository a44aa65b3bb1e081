import type { TokenUsage } from "./usage.ts";

/** The events that speech comes in where a client asks for events instead of bytes. There is no end mark behind them. */
export const speechDelta = "speech.audio.delta";
export const speechDone = "speech.audio.done";

/** One run of audio as an event. Each is encoded for itself, so a client may decode it at once. */
export function speechDeltaFrame(audio: Uint8Array): Uint8Array {
  return encoder.encode(`data: {"type":"${speechDelta}","audio":"${audio.toBase64()}"}\n\n`);
}

/**
 * The last event. Its usage is not optional in the convention, and typed clients refuse the event without it, so tokens
 * that nobody counted are zeros here; what the gateway itself reports stays unknown.
 */
export function speechDoneFrame(usage: TokenUsage | null): Uint8Array {
  const input = usage?.promptTokens ?? 0;
  const output = usage?.completionTokens ?? 0;
  const counted = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  return encoder.encode(`data: ${JSON.stringify({ type: speechDone, usage: counted })}\n\n`);
}

/** The audio of an event, or null where it is not base64. */
export function audioOf(base64: string): Uint8Array | null {
  try {
    return Uint8Array.fromBase64(base64);
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();
