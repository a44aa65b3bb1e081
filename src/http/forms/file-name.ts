import { audioKindOf, sniffAudio } from "../../media/audio-kind.ts";

/** What a file is called from here on: recognizers tell its format by this name, so one is invented where the client gave none. */
export function fileNameOf(sent: string | null, type: string | null, head: Uint8Array): string {
  const name = baseName(sent ?? "");
  if (name !== "") return shortened(name);
  return `audio.${sniffAudio(head) ?? audioKindOf(type ?? "") ?? "bin"}`;
}

/** Without folders, of any system, and without what no name holds. */
function baseName(path: string): string {
  const name = path
    .slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1)
    .replace(/\p{Cc}/gu, "")
    .trim();
  return name === "." || name === ".." ? "" : name;
}

/** The middle goes first: the extension is what matters. */
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
