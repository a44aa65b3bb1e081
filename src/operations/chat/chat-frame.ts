/** What every chunk of one stream has in common. */
export interface StreamIdentity {
  readonly id: unknown;
  readonly created: unknown;
  readonly model: unknown;
}

export function identityOf(frame: Uint8Array): StreamIdentity | null {
  const chunk = chunkOf(frame);
  return chunk === null ? null : { id: chunk["id"], created: chunk["created"], model: chunk["model"] };
}

/** The chunk of another stream as if this one had gone on: its identity, and of its words only those the client does not have. */
export function adopted(frame: Uint8Array, identity: StreamIdentity, content: string, resumed: boolean): Uint8Array {
  return readdressed(frame, identity, () => (content === "" ? {} : { content }), resumed);
}

/**
 * The same where the client has nothing of the answer yet but reasoning. More reasoning is another train of thought, and begins
 * with a `lead`; its signed form would not fit to what the client has of the first, and stays behind.
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
