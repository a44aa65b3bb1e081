import { labText, labTokens } from "./lab-chat.ts";
import type { LabReply } from "./lab-faults.ts";

/**
 * The sound of the lab's channels: a WAV of as many pieces as its text has words, each of another loudness, so that a client can check
 * it. It is also the recording that clients have transcribed. A character is a byte, as in all texts of the lab.
 */
const samplesPerPiece = 400;
const pieceBytes = 2 * samplesPerPiece;
const sampleRate = 8_000;
const pieces: readonly string[] = Array.from({ length: labTokens }, (_, at) => {
  const loud = number(100 * (at + 1), 2);
  return (loud + number(0x1_00_00 - 100 * (at + 1), 2)).repeat(samplesPerPiece / 2);
});
const soundBytes = labTokens * pieceBytes;
const head = [
  `RIFF${number(36 + soundBytes, 4)}WAVEfmt ${number(16, 4)}${number(1, 2)}${number(1, 2)}`,
  `${number(sampleRate, 4)}${number(2 * sampleRate, 4)}${number(2, 2)}${number(16, 2)}data${number(soundBytes, 4)}`,
].join("");

export const labSound: Uint8Array<ArrayBuffer> = new Uint8Array(Buffer.from(head + pieces.join(""), "latin1"));

/** How many whole pieces there are in the beginning of the sound; null if it is not the beginning of it. */
export function piecesIn(bytes: Uint8Array): number | null {
  const isBeginning = bytes.length <= labSound.length && Buffer.compare(bytes, labSound.subarray(0, bytes.length)) === 0;
  return isBeginning ? Math.max(0, Math.floor((bytes.length - head.length) / pieceBytes)) : null;
}

export const speechReply: LabReply = {
  isStreamed: true,
  contentType: "audio/wav",
  opening: head,
  pieces,
  closing: "",
  whole: head + pieces.join(""),
};

const transcript = JSON.stringify({ text: labText });

export const transcriptionReply: LabReply = {
  isStreamed: false,
  contentType: "application/json",
  opening: "",
  pieces: [transcript],
  closing: "",
  whole: transcript,
};

/** Little-endian. */
function number(value: number, bytes: number): string {
  return String.fromCharCode(...Array.from({ length: bytes }, (_, at) => (value >>> (8 * at)) & 0xff));
}
