import type { Exchange } from "./chaos/exchange.ts";
import { audioFaults } from "./faults/audio.ts";
import { connectionFaults } from "./faults/connection.ts";
import type { Fault, Faults } from "./faults/fault.ts";
import { framingFaults } from "./faults/framing.ts";
import { payloadFaults } from "./faults/payload.ts";
import { refusalFaults } from "./faults/refusal.ts";
import { streamFaults } from "./faults/stream.ts";
import { uploadFaults } from "./faults/upload.ts";

/** Every way the chaos upstream can misbehave, by name. */
export const faults: Faults = {
  ...connectionFaults,
  ...framingFaults,
  ...streamFaults,
  ...payloadFaults,
  ...refusalFaults,
  ...audioFaults,
  ...uploadFaults,
};

/** Lets each fault of a behaviour act in turn until one has ended the exchange. */
export async function misbehave(exchange: Exchange, behaviour: string): Promise<void> {
  for (const { fault, argument } of partsOf(behaviour)) {
    await fault(exchange, argument);
    if (exchange.ended) return;
  }
}

/** `fault:NAME@ARGUMENT+NAME@ARGUMENT`; anything without the prefix is healthy. Throws at a name that is not known. */
export function partsOf(behaviour: string): readonly Part[] {
  if (!behaviour.startsWith(prefix)) return [];
  return pieces(behaviour.slice(prefix.length)).map((piece) => {
    const at = piece.indexOf("@");
    const name = at < 0 ? piece : piece.slice(0, at);
    const fault = faults[name];
    if (fault === undefined) throw new Error(`no fault is called ${name}`);
    return { fault, argument: at < 0 ? "" : piece.slice(at + 1) };
  });
}

export interface Part {
  readonly fault: Fault;
  readonly argument: string;
}

const prefix = "fault:";

/** A plus that is not followed by the name of a fault belongs to the argument before it. */
function pieces(list: string): readonly string[] {
  const found: string[] = [];
  for (const piece of list.split("+")) {
    const begins = found.length === 0 || nameOf(piece) in faults;
    if (begins) found.push(piece);
    else found[found.length - 1] += `+${piece}`;
  }
  return found;
}

function nameOf(piece: string): string {
  return piece.split("@", 1)[0] ?? "";
}
