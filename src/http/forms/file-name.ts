import { audioKindOf, sniffAudio } from "../../media/audio-kind.ts";

/** The file name that upstreams get. They recognise the format by it, so a name is made up if the client sent none. */
export function fileNameOf(sent: string | null, type: string | null, head: Uint8Array): string {
  const name = baseName(sent ?? "");
  if (name !== "") return shortened(name);
  return `audio.${sniffAudio(head) ?? audioKindOf(type ?? "") ?? "bin"}`;
}

/** Without directories, of any operating system, and without control characters. */
function baseName(path: string): string {
  const name = path
    .slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1)
    .replace(/\p{Cc}/gu, "")
    .trim();
  return name === "." || name === ".." ? "" : name;
}

/** Shortens the stem and keeps the extension, which tells the format. */
function shortened(name: string): string {
  if (Buffer.byteLength(name) <= nameBytesMax) return name;
  const dot = name.lastIndexOf(".");
  const extension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= extensionBytesMax ? name.slice(dot) : "";
  let room = nameBytesMax - Buffer.byteLength(extension);
  let stem = "";
  for (const character of name) {
    room -= Buffer.byteLength(character);
    if (room < 0) break;
    stem += character;
  }
  return stem + extension;
}

const nameBytesMax = 255;
const extensionBytesMax = 16;
