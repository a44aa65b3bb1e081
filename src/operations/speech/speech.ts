import type { AudioFormat } from "../../media/audio.ts";
import type { Member } from "../json.ts";

/** A speech request as the client sent it: the bytes, and the few facts the gateway decides on. */
export interface SpeechRequest {
  readonly operation: "speech";
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly Member[];
  readonly model: string;
  /** The text to be spoken, and how many Unicode characters it has. */
  readonly input: string;
  readonly characters: number;
  /** The name of a voice; null where the client sent an object, which only its own provider understands. */
  readonly voice: string | null;
  readonly format: AudioFormat;
  /** The client wants events with base64 audio instead of bytes. */
  readonly events: boolean;
}
