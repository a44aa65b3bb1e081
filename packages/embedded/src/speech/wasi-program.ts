/**
 * Runs a WASI program that reads its arguments and writes one file. The WASI implementation of the runtime needs a folder on disk and
 * gives the program more access; this one provides only a clock, and one file in memory.
 */
export async function runProgram(module: WebAssembly.Module, options: ProgramOptions): Promise<ProgramResult> {
  const program = makeHost(options);
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: program.functions });
  program.attach(instance.exports["memory"] as WebAssembly.Memory);
  const start = instance.exports["_start"] as () => void;
  try {
    start();
  } catch (thrown) {
    if (!(thrown instanceof ProgramExit)) throw thrown;
    return { code: thrown.code, output: program.output() };
  }
  return { code: 0, output: program.output() };
}

export interface ProgramOptions {
  /** The first is the program's name. No NUL characters. */
  readonly arguments: readonly string[];
  /** The name of the only file that it may create, without a folder. */
  readonly outputName: string;
  readonly outputBytesMax: number;
}

export interface ProgramResult {
  readonly code: number;
  readonly output: Uint8Array;
}

class ProgramExit extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`the program ended with ${code}`);
    this.code = code;
  }
}

const success = 0;
const badDescriptor = 8;
const fileTooLarge = 22;
const invalid = 28;
const notFound = 44;

/** 0 to 2 are stdin, stdout and stderr. */
const folderDescriptor = 3;
const fileDescriptor = 4;
const characterDevice = 2;
const folder = 3;
const regularFile = 4;
const createFlag = 1;

interface Host {
  readonly functions: WebAssembly.ModuleImports;
  readonly attach: (memory: WebAssembly.Memory) => void;
  readonly output: () => Uint8Array;
}

function makeHost(options: ProgramOptions): Host {
  const texts = options.arguments.map((argument) => new TextEncoder().encode(`${argument}\0`));
  const folderName = new TextEncoder().encode("/");
  let memory: WebAssembly.Memory | null = null;
  let file = new Uint8Array(64 * 1024);
  let length = 0;
  let position = 0;

  // Growing the memory detaches its buffer, so that each call creates its views anew.
  const bytes = (): Uint8Array => new Uint8Array(attached().buffer);
  const view = (): DataView => new DataView(attached().buffer);
  const attached = (): WebAssembly.Memory => {
    if (memory === null) throw new Error("the program called before it was started");
    return memory;
  };

  const write = (piece: Uint8Array): boolean => {
    const end = position + piece.length;
    if (end > options.outputBytesMax) return false;
    if (end > file.length) {
      const larger = new Uint8Array(Math.max(end, file.length * 2));
      larger.set(file);
      file = larger;
    }
    file.set(piece, position);
    position = end;
    length = Math.max(length, end);
    return true;
  };

  const functions = {
    args_sizes_get(countAt: number, sizeAt: number): number {
      view().setUint32(countAt, texts.length, true);
      view().setUint32(
        sizeAt,
        texts.reduce((sum, text) => sum + text.length, 0),
        true,
      );
      return success;
    },
    args_get(pointersAt: number, textsAt: number): number {
      let at = textsAt;
      for (const [index, text] of texts.entries()) {
        view().setUint32(pointersAt + index * 4, at, true);
        bytes().set(text, at);
        at += text.length;
      }
      return success;
    },
    clock_time_get(_clock: number, _precision: bigint, at: number): number {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return success;
    },
    fd_close(descriptor: number): number {
      return descriptor <= fileDescriptor ? success : badDescriptor;
    },
    fd_fdstat_get(descriptor: number, at: number): number {
      if (descriptor > fileDescriptor) return badDescriptor;
      bytes().fill(0, at, at + 24);
      const kind = descriptor === fileDescriptor ? regularFile : descriptor === folderDescriptor ? folder : characterDevice;
      view().setUint8(at, kind);
      view().setBigUint64(at + 8, 0xffff_ffff_ffff_ffffn, true);
      view().setBigUint64(at + 16, 0xffff_ffff_ffff_ffffn, true);
      return success;
    },
    fd_fdstat_set_flags: (): number => success,
    fd_prestat_get(descriptor: number, at: number): number {
      if (descriptor !== folderDescriptor) return badDescriptor;
      view().setUint32(at, 0, true);
      view().setUint32(at + 4, folderName.length, true);
      return success;
    },
    fd_prestat_dir_name(descriptor: number, at: number, size: number): number {
      if (descriptor !== folderDescriptor || size < folderName.length) return badDescriptor;
      bytes().set(folderName, at);
      return success;
    },
    fd_read(_descriptor: number, _pieces: number, _count: number, at: number): number {
      view().setUint32(at, 0, true);
      return success;
    },
    fd_seek(descriptor: number, offset: bigint, whence: number, at: number): number {
      if (descriptor !== fileDescriptor) return badDescriptor;
      const target = Number(offset) + (whence === 0 ? 0 : whence === 1 ? position : length);
      if (target < 0 || target > options.outputBytesMax) return invalid;
      position = target;
      view().setBigUint64(at, BigInt(target), true);
      return success;
    },
    fd_write(descriptor: number, piecesAt: number, count: number, writtenAt: number): number {
      let written = 0;
      for (let index = 0; index < count; index++) {
        const from = view().getUint32(piecesAt + index * 8, true);
        const size = view().getUint32(piecesAt + index * 8 + 4, true);
        // Its stdout and stderr are ignored: the result is the file.
        if (descriptor === fileDescriptor && !write(bytes().subarray(from, from + size))) return fileTooLarge;
        written += size;
      }
      view().setUint32(writtenAt, written, true);
      return success;
    },
    path_open(
      _descriptor: number,
      _lookup: number,
      nameAt: number,
      nameLength: number,
      flags: number,
      _rights: bigint,
      _inherited: bigint,
      _mode: number,
      at: number,
    ): number {
      const name = new TextDecoder().decode(bytes().slice(nameAt, nameAt + nameLength));
      if (name !== options.outputName || (flags & createFlag) === 0) return notFound;
      view().setUint32(at, fileDescriptor, true);
      return success;
    },
    proc_exit(code: number): never {
      throw new ProgramExit(code);
    },
  };

  return {
    functions,
    attach: (given) => {
      memory = given;
    },
    output: () => file.slice(0, length),
  };
}
