import { noiseWave } from "./recording.ts";

/** A form as clients of the convention write it, with its file in the middle. */
export function formBytes(model: string, fileBytes: number): { readonly type: string; readonly bytes: Buffer } {
  const field = (name: string, value: string) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const file = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="recording.wav"\r\nContent-Type: audio/wav\r\n\r\n`;
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    bytes: Buffer.concat([
      Buffer.from(field("model", model) + file),
      noiseWave(fileBytes),
      Buffer.from(`\r\n${field("response_format", "json")}--${boundary}--\r\n`),
    ]),
  };
}

const boundary = "----bench-form-5d1c07f3a96e4b28";
