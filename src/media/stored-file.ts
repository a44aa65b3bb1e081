/** An uploaded file, wherever it is kept. It can be read as often as there are attempts, from any offset. */
export interface StoredFile {
  readonly length: number;
  /** Its first bytes, at most 4096: enough to tell what it is. */
  readonly head: Uint8Array;
  /** Letters and digits that nobody could know who made the file: a form around it is told apart from it by them. */
  readonly seal?: string;
  /** At most `length` bytes from an offset; fewer only at the end of the file. Throws when the disk fails. */
  read(from: number, length: number): Promise<Uint8Array>;
}

/** One field of a form that is not a file, exactly as it was sent. */
export interface FormField {
  readonly name: string;
  readonly value: string;
}

export interface FormFile {
  /** As the client called it, or invented from its content where it was not called anything. */
  readonly name: string;
  /** The media type of its part, or null where the part had none. */
  readonly type: string | null;
  readonly content: StoredFile;
}
