import type { TokenUsage } from "../usage.ts";

/** The events of streamed speech, if a client asks for events instead of bytes. There is no end mark after them. */
export const speechDelta = "speech.audio.delta";
export const speechDone = "speech.audio.done";

/** A piece of audio as an event. Each event can be decoded by itself. */
export function speechDeltaFrame(audio: Uint8Array): Uint8Array {
  return encoder.encode(`data: {"type":"${speechDelta}","audio":"${audio.toBase64()}"}\n\n`);
}

/** The last event. Unknown token counts are left out, because zero would be a count. */
export function speechDoneFrame(usage: TokenUsage | null): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify({ type: speechDone, ...counted(usage) })}\n\n`);
}

function counted(usage: TokenUsage | null): { readonly usage?: object } {
  const { promptTokens = null, completionTokens = null } = usage ?? {};
  if (promptTokens === null && completionTokens === null) return {};
  return {
    usage: {
      ...(promptTokens !== null && { input_tokens: promptTokens }),
      ...(completionTokens !== null && { output_tokens: completionTokens }),
      ...(promptTokens !== null && completionTokens !== null && { total_tokens: promptTokens + completionTokens }),
    },
  };
}

/** The audio of an event; null if it is not base64. */
export function audioOf(base64: string): Uint8Array | null {
  try {
    return Uint8Array.fromBase64(base64);
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();
