import { createHash } from "node:crypto";

/** For which machine an ELF file is; null for any other kind of file. https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html */
export function elfMachine(file: Buffer): "x64" | "arm64" | "another" | null {
  if (file.readUInt32BE(0) !== elfMagic || file[4] !== elf64 || file[5] !== littleEndian) return null;
  return elfMachines[file.readUInt16LE(18)] ?? "another";
}

export interface MachO {
  readonly machine: "arm64" | "another";
  /** Null where it has no signature: macOS on arm64 kills such a program when it starts. */
  readonly signature: CodeSignature | null;
}

export interface CodeSignature {
  /** Whether it covers all of the file before itself, and ends with it. */
  readonly coversAll: boolean;
  readonly pages: number;
  /** How many pages have another hash than the signature says: macOS kills a program that comes to one of them. */
  readonly wrongPages: number;
}

/** What a Mach-O file of 64 bits says of itself; null for any other kind of file. The numbers are those of <mach-o/loader.h>. */
export function machO(file: Buffer): MachO | null {
  if (file.readUInt32LE(0) !== machOMagic) return null;
  let signature: CodeSignature | null = null;
  for (let left = file.readUInt32LE(16), at = machOHeaderBytes; left > 0; left -= 1, at += file.readUInt32LE(at + 4)) {
    if (file.readUInt32LE(at) === codeSignatureCommand) {
      signature = codeSignature(file, file.readUInt32LE(at + 8), file.readUInt32LE(at + 12));
    }
  }
  return { machine: file.readUInt32LE(4) === machOArm64 ? "arm64" : "another", signature };
}

/** The numbers are those of <kern/cs_blobs.h>, with the most significant byte first. */
function codeSignature(file: Buffer, from: number, bytes: number): CodeSignature | null {
  if (file.readUInt32BE(from) !== embeddedSignature) return null;
  for (let left = file.readUInt32BE(from + 8), at = from + 12; left > 0; left -= 1, at += 8) {
    const directory = from + file.readUInt32BE(at + 4);
    if (file.readUInt32BE(directory) !== codeDirectory) continue;
    const [hashes, pages, end] = [16, 28, 32].map((offset) => file.readUInt32BE(directory + offset)) as [number, number, number];
    const [hashBytes, kind, , pageShift] = file.subarray(directory + 36, directory + 40) as unknown as [number, number, number, number];
    if (kind !== sha256) return null;
    const pageBytes = 1 << pageShift;
    let wrongPages = 0;
    for (let page = 0; page < pages; page += 1) {
      const content = file.subarray(page * pageBytes, Math.min((page + 1) * pageBytes, end));
      const hash = directory + hashes + page * hashBytes;
      if (
        !createHash("sha256")
          .update(content)
          .digest()
          .equals(file.subarray(hash, hash + hashBytes))
      )
        wrongPages += 1;
    }
    return { coversAll: end === from && pages * pageBytes >= end && from + bytes === file.length, pages, wrongPages };
  }
  return null;
}

const elfMagic = 0x7f454c46;
const elf64 = 2;
const littleEndian = 1;
const elfMachines: Readonly<Record<number, "x64" | "arm64">> = { 62: "x64", 183: "arm64" };
const machOMagic = 0xfeedfacf;
const machOHeaderBytes = 32;
const machOArm64 = 0x0100000c;
const codeSignatureCommand = 0x1d;
const embeddedSignature = 0xfade0cc0;
const codeDirectory = 0xfade0c02;
const sha256 = 2;
