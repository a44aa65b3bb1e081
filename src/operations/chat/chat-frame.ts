/** The fields that all chunks of one stream share. */
export interface StreamIdentity {
  readonly id: unknown;
  readonly created: unknown;
  readonly model: unknown;
}

export function identityOf(frame: Uint8Array): StreamIdentity | null {
  const chunk = chunkOf(frame);
  return chunk === null ? null : { id: chunk["id"], created: chunk["created"], model: chunk["model"] };
}

/** Rewrites a chunk of another stream as a continuation of this one: with its identity, and only the text that the client does not have. */
export function adopted(frame: Uint8Array, identity: StreamIdentity, content: string, resumed: boolean): Uint8Array {
  return readdressed(frame, identity, () => (content === "" ? {} : { content }), resumed);
}

/**
 * The same if the client has only reasoning so far. The second model's reasoning begins with a `lead`. Its signed form is dropped,
 * because it does not match the reasoning that the client already has.
 */
export function adoptedAnew(frame: Uint8Array, identity: StreamIdentity, lead: string, resumed: boolean): Uint8Array {
  return readdressed(
    frame,
    identity,
    (delta) => {
      delete delta["role"];
      delete delta["reasoning_details"];
      for (const key of ["reasoning_content", "reasoning"]) {
        if (lead !== "" && typeof delta[key] === "string" && delta[key] !== "") delta[key] = lead + delta[key];
      }
      return delta;
    },
    resumed,
  );
}

type Delta = Record<string, unknown>;

function readdressed(frame: Uint8Array, identity: StreamIdentity, change: (delta: Delta) => Delta, resumed: boolean): Uint8Array {
  const chunk = chunkOf(frame);
  if (chunk === null) return frame;
  const choices = Array.isArray(chunk["choices"]) ? (chunk["choices"] as readonly Record<string, unknown>[]) : [];
  const joined = {
    ...chunk,
    ...identity,
    choices: choices.map((choice) => ({ ...choice, delta: change({ ...(choice["delta"] as Delta | null) }) })),
    ...(resumed ? { gateway: { resumed: true } } : undefined),
  };
  return encoder.encode(`data: ${JSON.stringify(joined)}\n\n`);
}

function chunkOf(frame: Uint8Array): Record<string, unknown> | null {
  try {
    return JSON.parse(decoder.decode(frame.subarray(6))) as Record<string, unknown>;
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
