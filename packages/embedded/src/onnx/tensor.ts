/** An array of numbers with dimensions. ONNX Runtime reads and writes `data` in place. */
export type Tensor =
  | { readonly type: "float32"; readonly data: Float32Array; readonly dims: readonly number[] }
  | { readonly type: "int64"; readonly data: BigInt64Array; readonly dims: readonly number[] }
  | { readonly type: "bool"; readonly data: Uint8Array; readonly dims: readonly number[] };

export function floats(data: Float32Array, dims: readonly number[]): Tensor & { readonly type: "float32" } {
  return { type: "float32", data, dims };
}

export function integers(values: Iterable<number>, dims: readonly number[]): Tensor {
  return { type: "int64", data: BigInt64Array.from(values, BigInt), dims };
}

export function truth(value: boolean): Tensor {
  return { type: "bool", data: Uint8Array.of(value ? 1 : 0), dims: [1] };
}

/** The data of a tensor that must have floats. */
export function floatsOf(tensor: Tensor): Float32Array {
  if (tensor.type !== "float32") throw new Error(`A tensor of ${tensor.type} came where floats were expected.`);
  return tensor.data;
}
