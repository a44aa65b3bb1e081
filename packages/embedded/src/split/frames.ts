/**
 * What comes out of the process: frames of four bytes (the length of the head, little-endian), the head as JSON, and as many
 * bytes of a WAV file as the head says.
 */
export type Head =
  /** Times are seconds from the beginning of the recording. */
  | {
      readonly type: "part";
      readonly start: number;
      readonly end: number;
      readonly overlap: number;
      readonly goesOn: boolean;
      readonly bytes: number;
    }
  | { readonly type: "end" }
  /** `undecodable`: by the file's fault, and the message is fit to be shown; `absent`: by a codec that is not installed. */
  | { readonly type: "failed"; readonly reason: "undecodable" | "absent" | "broken"; readonly message: string };

export function headFrame(head: Head): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify(head));
  const frame = new Uint8Array(4 + json.length);
  new DataView(frame.buffer).setUint32(0, json.length, true);
  frame.set(json, 4);
  return frame;
}
