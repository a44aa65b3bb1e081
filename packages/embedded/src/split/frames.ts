/**
 * The output format of the process: the length of the header in four bytes (little-endian), the header as JSON, and as many bytes
 * of a WAV file as the header says.
 */
export type Head =
  /** Times in seconds from the beginning of the recording. */
  | {
      readonly type: "part";
      readonly start: number;
      readonly end: number;
      readonly overlap: number;
      readonly goesOn: boolean;
      readonly bytes: number;
    }
  | { readonly type: "end" }
  /** `undecodable`: the file is to blame, and the message may be shown; `absent`: a codec is not installed. */
  | { readonly type: "failed"; readonly reason: "undecodable" | "absent" | "broken"; readonly message: string };

export function headFrame(head: Head): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify(head));
  const frame = new Uint8Array(4 + json.length);
  new DataView(frame.buffer).setUint32(0, json.length, true);
  frame.set(json, 4);
  return frame;
}
