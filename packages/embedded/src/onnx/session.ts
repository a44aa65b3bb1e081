import { ptr, read, toArrayBuffer, type Pointer } from "bun:ffi";
import { check, created, cString, loadOnnxApi, type OnnxApi } from "./api.ts";
import { onnxLibrary } from "./library.ts";
import { type Tensor } from "./tensor.ts";

/** A loaded model. Only one run may be under way at a time. */
export interface OnnxSession {
  /**
   * Runs the model. An output with a tensor is written there; for one with `null`, a new tensor is made. The thread is blocked while the
   * model runs, but other events are handled before.
   */
  run(inputs: Readonly<Record<string, Tensor>>, outputs: Readonly<Record<string, Tensor | null>>): Promise<OnnxOutputs>;
  close(): void;
}

/** The output of that name. Throws if it was not asked for. */
export type OnnxOutputs = (name: string) => Tensor;

export interface OnnxOptions {
  readonly threads: number;
  /** Keeps the memory of a run for the next. */
  readonly arena: boolean;
  /** Allocates the memory of a run in one piece, once the sizes are known. */
  readonly memoryPattern: boolean;
  /** As in onnxruntime_session_options_config_keys.h. */
  readonly settings: Readonly<Record<string, string>>;
}

/** What every session of this process shares. */
interface Runtime {
  readonly api: OnnxApi;
  readonly environment: Pointer;
  /** Says that tensors are in ordinary memory. */
  readonly memory: Pointer;
}

let runtime: Runtime | null = null;

export async function openOnnxSession(path: string, options: OnnxOptions): Promise<OnnxSession> {
  runtime ??= startRuntime();
  const { api, environment, memory } = runtime;
  await nextTurn();
  const settings = sessionOptions(api, options);
  const file = cString(path);
  let session: Pointer | null;
  try {
    session = created(api, (out) => api.CreateSession(environment, ptr(file), settings, out));
  } finally {
    api.ReleaseSessionOptions(settings);
  }
  const names = new Map<string, Uint8Array>();
  const nameOf = (name: string): Pointer => {
    const known = names.get(name) ?? cString(name);
    names.set(name, known);
    return ptr(known);
  };

  function run(inputs: Readonly<Record<string, Tensor>>, outputs: Readonly<Record<string, Tensor | null>>): OnnxOutputs {
    if (session === null) throw new Error("The model was closed.");
    const given = Object.entries(inputs);
    const wanted = Object.entries(outputs);
    const values: Pointer[] = [];
    const valueOf = (tensor: Tensor): Pointer => {
      const value = wrapped(api, memory, tensor);
      values.push(value);
      return value;
    };
    try {
      const inputNames = pointers(given.map(([name]) => nameOf(name)));
      const inputValues = pointers(given.map(([, tensor]) => valueOf(tensor)));
      const outputNames = pointers(wanted.map(([name]) => nameOf(name)));
      const outputValues = pointers(wanted.map(([, tensor]) => (tensor === null ? null : valueOf(tensor))));
      check(
        api,
        api.Run(session, null, ptr(inputNames), ptr(inputValues), given.length, ptr(outputNames), wanted.length, ptr(outputValues)),
      );
      const made = new Map(
        wanted.map(([name, tensor], index) => {
          if (tensor !== null) return [name, tensor];
          const value = read.ptr(ptr(outputValues), index * 8) as Pointer;
          values.push(value);
          return [name, copied(api, value)];
        }),
      );
      return (name) => {
        const tensor = made.get(name);
        if (tensor === undefined) throw new Error(`The model gave no ${name}.`);
        return tensor;
      };
    } finally {
      for (const value of values) api.ReleaseValue(value);
    }
  }

  return {
    run: async (inputs, outputs) => {
      await nextTurn();
      return run(inputs, outputs);
    },
    close: () => {
      if (session !== null) api.ReleaseSession(session);
      session = null;
    },
  };
}

function startRuntime(): Runtime {
  const path = onnxLibrary();
  if (path === null) throw new Error(`There is no ONNX Runtime for ${process.platform} on ${process.arch}.`);
  const api = loadOnnxApi(path);
  const name = cString("sluice");
  const environment = created(api, (out) => api.CreateEnv(logErrors, ptr(name), out));
  const memory = created(api, (out) => api.CreateCpuMemoryInfo(deviceAllocator, defaultMemory, out));
  return { api, environment, memory };
}

// Values of the enumerations of onnxruntime_c_api.h.
const logErrors = 3;
const deviceAllocator = 0;
const defaultMemory = 0;
const elementTypes = { float32: 1, int64: 7, bool: 9 } as const;

function sessionOptions(api: OnnxApi, { threads, arena, memoryPattern, settings }: OnnxOptions): Pointer {
  const options = created(api, (out) => api.CreateSessionOptions(out));
  check(api, api.SetIntraOpNumThreads(options, threads));
  check(api, api.SetInterOpNumThreads(options, 1));
  if (!arena) check(api, api.DisableCpuMemArena(options));
  if (!memoryPattern) check(api, api.DisableMemPattern(options));
  for (const [key, value] of Object.entries(settings)) {
    const [name, text] = [cString(key), cString(value)];
    check(api, api.AddSessionConfigEntry(options, ptr(name), ptr(text)));
  }
  return options;
}

/** An OrtValue that reads and writes the tensor's own array, which the caller keeps until it is released. */
function wrapped(api: OnnxApi, memory: Pointer, { type, data, dims }: Tensor): Pointer {
  const shape = BigInt64Array.from(dims, BigInt);
  // An empty array has no address of its own.
  const at = ptr(data.byteLength === 0 ? emptyPlace : data);
  return created(api, (out) =>
    api.CreateTensorWithDataAsOrtValue(memory, at, data.byteLength, ptr(shape), shape.length, elementTypes[type], out),
  );
}

const emptyPlace = new Uint8Array(8);

/** A tensor of ours with what the library made: its memory is outside of the heap, where the garbage collector does not see it. */
function copied(api: OnnxApi, value: Pointer): Tensor {
  const info = created(api, (out) => api.GetTensorTypeAndShape(value, out));
  let dims: readonly number[];
  const type = new Int32Array(1);
  try {
    check(api, api.GetTensorElementType(info, ptr(type)));
    const count = new BigUint64Array(1);
    check(api, api.GetDimensionsCount(info, ptr(count)));
    const shape = new BigInt64Array(Number(count[0]));
    if (shape.length > 0) check(api, api.GetDimensions(info, ptr(shape), shape.length));
    dims = Array.from(shape, Number);
  } finally {
    api.ReleaseTensorTypeAndShapeInfo(info);
  }
  if (type[0] !== elementTypes.float32) throw new Error(`The model gave a tensor of the unknown type ${type[0]}.`);
  const length = dims.reduce((product, dim) => product * dim, 1);
  if (length === 0) return { type: "float32", data: new Float32Array(0), dims };
  const data = created(api, (out) => api.GetTensorMutableData(value, out));
  return { type: "float32", data: new Float32Array(toArrayBuffer(data, 0, length * 4).slice(0)), dims };
}

function pointers(those: readonly (Pointer | null)[]): BigUint64Array {
  return BigUint64Array.from(those, (one) => BigInt(one ?? 0));
}

/** Running a model blocks the thread: what has arrived is handled first. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
