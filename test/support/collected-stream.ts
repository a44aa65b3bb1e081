import type { StreamReader } from "../../src/dialects/dialect.ts";
import type { StreamPart } from "../../src/operations/conversation/answer-parts.ts";
import type { Emission } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";

/** What a reader makes of a body, to its end or to the first failure. */
export interface CollectedStream {
  readonly parts: StreamPart[];
  readonly emissions: Emission[];
  failure: Failure | null;
}

/** Reads a body in these pieces. The reader answers at once. */
export function collectStream(reader: SyncReader, pieces: readonly Uint8Array[]): CollectedStream {
  const collected: CollectedStream = { parts: [], emissions: [], failure: null };
  const take = (emissions: readonly Emission[] | Failure): boolean => {
    if (isFailure(emissions)) collected.failure = emissions;
    else {
      collected.emissions.push(...emissions);
      for (const emission of emissions)
        if (emission.kind === "delta" && "parts" in emission) collected.parts.push(...(emission.parts ?? []));
      collected.failure ??= reader.pending;
    }
    return collected.failure === null;
  };
  for (const piece of pieces) if (!take(reader.push(piece))) return collected;
  take(reader.close());
  return collected;
}

interface SyncReader extends Pick<StreamReader, "pending"> {
  push(chunk: Uint8Array): readonly Emission[] | Failure;
  close(): readonly Emission[] | Failure;
}
