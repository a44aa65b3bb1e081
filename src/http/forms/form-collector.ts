import { sniffAudio } from "../../media/audio-kind.ts";
import { listNameOf, recordingsName } from "../../operations/transcription/form-lists.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import type { FormField, FormFile } from "../../media/stored-file.ts";
import type { FormPiece } from "./form-splitter.ts";
import { fileNameOf } from "./file-name.ts";
import { readPart, type FormPart } from "./form-part.ts";
import {
  fieldNotText,
  fieldsTooLarge,
  fieldTooLarge,
  fileAsText,
  fileEmpty,
  fileTooLarge,
  fileTwice,
  noFile,
  otherFile,
  partHeadersTooLong,
  tooManyFields,
} from "./form-errors.ts";
import { SpoolBuffer } from "./spool-buffer.ts";
import type { Spool } from "./spool.ts";

/** Collects the fields and the file of a form (RFC 7578). It takes the pieces in order, each after the one before was handled. */
export class FormCollector {
  readonly fields: FormField[] = [];
  /** How much of the form so far is recordings of speakers. */
  recordingBytes = 0;
  readonly #spool: Spool;
  readonly #fileBytesMax: number;
  readonly #value = new SpoolBuffer();
  #fieldBytes = 0;
  #part: FormPart | null = null;
  #filePart: FormPart | null = null;

  constructor(spool: Spool, fileBytesMax: number) {
    this.#spool = spool;
    this.#fileBytesMax = fileBytesMax;
  }

  /** Returns what is wrong with the form, as early as that is known. */
  take(piece: FormPiece): Failure | null | Promise<Failure | null> {
    switch (piece.kind) {
      case "headers":
        return this.#begin(piece.block);
      case "content":
        return this.#part?.name === "file" ? this.#takeFile(piece.bytes) : this.#takeValue(piece.bytes);
      case "part-end":
        return this.#part?.name === "file" ? null : this.#endField();
      case "headers-too-long":
        return partHeadersTooLong;
    }
  }

  async finish(): Promise<FormFile | Failure> {
    const part = this.#filePart;
    if (part === null) return noFile;
    const content = await this.#spool.finish();
    if (isFailure(content)) return content;
    if (content.length === 0) return fileEmpty;
    if (!isFile(part, content.head)) return fileAsText;
    return { name: fileNameOf(part.fileName, part.type, content.head), type: part.type, content };
  }

  #begin(block: Uint8Array): Failure | null {
    const part = readPart(block);
    if (isFailure(part)) return part;
    this.#part = part;
    if (part.name === "file") {
      if (this.#filePart !== null) return fileTwice;
      this.#filePart = part;
      return null;
    }
    if (part.fileName !== null) return otherFile(part.name);
    if (this.fields.length === fieldsMax) return tooManyFields;
    this.#fieldBytes += Buffer.byteLength(part.name);
    return null;
  }

  #takeFile(bytes: Uint8Array): Failure | Promise<Failure | null> {
    const length = this.#spool.length + bytes.length;
    return length > this.#fileBytesMax ? fileTooLarge(this.#fileBytesMax, length) : this.#spool.write(bytes);
  }

  #takeValue(bytes: Uint8Array): Failure | null {
    const name = this.#part?.name ?? "";
    if (listNameOf(name) === recordingsName) {
      this.recordingBytes += bytes.length;
      if (this.recordingBytes > recordingBytesMax) return fieldTooLarge(name, recordingBytesMax);
    } else {
      this.#fieldBytes += bytes.length;
      if (this.#value.length + bytes.length > valueBytesMax) return fieldTooLarge(name, valueBytesMax);
      if (this.#fieldBytes > allFieldBytesMax) return fieldsTooLarge;
    }
    this.#value.append(bytes);
    return null;
  }

  #endField(): Failure | null {
    const name = this.#part?.name ?? "";
    try {
      this.fields.push({ name, value: utf8.decode(this.#value.view()) });
    } catch {
      return fieldNotText(name);
    }
    this.#value.clear(keptBytesMax);
    return null;
  }
}

/** A part with a file name or a media type is a file. Without either, its content may show that it is not text. */
function isFile({ fileName, type }: FormPart, head: Uint8Array): boolean {
  return fileName !== null || (type !== null && !/^text\//i.test(type)) || sniffAudio(head) !== null;
}

const fieldsMax = 100;
const valueBytesMax = 256 * 1024;
const allFieldBytesMax = 1024 * 1024;
/** Four recordings of ten seconds in base64, even if they are WAV files of 48 kHz in stereo. Together, because they may be one JSON list. */
export const recordingBytesMax = 12 * 1024 * 1024;
const keptBytesMax = 64 * 1024;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
