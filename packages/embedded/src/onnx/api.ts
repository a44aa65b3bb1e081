import { CFunction, CString, dlopen, FFIType, ptr, read, type Pointer } from "bun:ffi";

/**
 * The functions of ONNX Runtime's C API that we use. The API is a table of pointers to functions, to which versions only append
 * (https://onnxruntime.ai/docs/api/c/struct_ort_api.html); the places are those of onnxruntime_c_api.h.
 */
const functions = {
  GetErrorMessage: { place: 2, args: [FFIType.ptr], returns: FFIType.ptr },
  CreateEnv: { place: 3, args: [FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  CreateSession: { place: 7, args: [FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  Run: {
    place: 9,
    args: [FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.u64, FFIType.ptr, FFIType.u64, FFIType.ptr],
    returns: FFIType.ptr,
  },
  CreateSessionOptions: { place: 10, args: [FFIType.ptr], returns: FFIType.ptr },
  DisableMemPattern: { place: 17, args: [FFIType.ptr], returns: FFIType.ptr },
  DisableCpuMemArena: { place: 19, args: [FFIType.ptr], returns: FFIType.ptr },
  SetIntraOpNumThreads: { place: 24, args: [FFIType.ptr, FFIType.i32], returns: FFIType.ptr },
  SetInterOpNumThreads: { place: 25, args: [FFIType.ptr, FFIType.i32], returns: FFIType.ptr },
  CreateTensorWithDataAsOrtValue: {
    place: 49,
    args: [FFIType.ptr, FFIType.ptr, FFIType.u64, FFIType.ptr, FFIType.u64, FFIType.i32, FFIType.ptr],
    returns: FFIType.ptr,
  },
  GetTensorMutableData: { place: 51, args: [FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  GetTensorElementType: { place: 60, args: [FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  GetDimensionsCount: { place: 61, args: [FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  GetDimensions: { place: 62, args: [FFIType.ptr, FFIType.ptr, FFIType.u64], returns: FFIType.ptr },
  GetTensorTypeAndShape: { place: 65, args: [FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  CreateCpuMemoryInfo: { place: 69, args: [FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.ptr },
  ReleaseStatus: { place: 93, args: [FFIType.ptr], returns: FFIType.void },
  ReleaseSession: { place: 95, args: [FFIType.ptr], returns: FFIType.void },
  ReleaseValue: { place: 96, args: [FFIType.ptr], returns: FFIType.void },
  ReleaseTensorTypeAndShapeInfo: { place: 99, args: [FFIType.ptr], returns: FFIType.void },
  ReleaseSessionOptions: { place: 100, args: [FFIType.ptr], returns: FFIType.void },
  AddSessionConfigEntry: { place: 130, args: [FFIType.ptr, FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
} as const;

/** The version of the API whose places these are. Later libraries support it as well. */
const apiVersion = 16;

type Argument = Pointer | number | bigint | null;
type Call = (...values: readonly Argument[]) => Pointer | null;

export type OnnxApi = { readonly [Name in keyof typeof functions]: Call };

/** Loads the library. It stays for the life of the process. */
export function loadOnnxApi(path: string): OnnxApi {
  const { symbols } = dlopen(path, { OrtGetApiBase: { args: [], returns: FFIType.ptr } });
  const base = symbols.OrtGetApiBase();
  if (typeof base !== "number") throw new Error(`${path} has no API.`);
  const getApi: Call = callable(pointerAt(base, 0), [FFIType.u32], FFIType.ptr);
  const table = getApi(apiVersion);
  if (table === null) throw new Error(`${path} does not know version ${apiVersion} of the API.`);
  const calls = Object.entries(functions).map(([name, { place, args, returns }]) => [
    name,
    callable(pointerAt(table, place), args, returns),
  ]);
  return Object.fromEntries(calls) as OnnxApi;
}

function callable(at: Pointer, args: readonly FFIType[], returns: FFIType): Call {
  const call: CallableFunction = CFunction({ ptr: at, args: [...args], returns });
  return (...values) => call(...values) as Pointer | null;
}

/** Throws what the library says about a failure, and frees the words. */
export function check(api: OnnxApi, status: Pointer | null): void {
  if (status === null) return;
  const words = api.GetErrorMessage(status);
  const message = words === null ? "ONNX Runtime failed" : new CString(words);
  api.ReleaseStatus(status);
  throw new Error(message);
}

/** Calls a function that writes a pointer to where its argument points, and returns that pointer. */
export function created(api: OnnxApi, call: (out: Pointer) => Pointer | null): Pointer {
  const out = new BigUint64Array(1);
  check(api, call(ptr(out)));
  return pointerAt(ptr(out), 0);
}

/** Such as a name, for a C function. The caller keeps the array as long as the pointer is used. */
export function cString(text: string): Uint8Array {
  return new TextEncoder().encode(`${text}\0`);
}

function pointerAt(table: Pointer, place: number): Pointer {
  const pointer = read.ptr(table, place * 8) as Pointer;
  if (pointer === 0) throw new Error("ONNX Runtime gave a null pointer.");
  return pointer;
}
