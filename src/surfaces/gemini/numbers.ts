/** Numbers may be written as strings: https://protobuf.dev/programming-guides/json/. What is no number stays as it is. */
export function numberIn(value: unknown): unknown {
  return typeof value === "string" && decimal.test(value) ? Number(value) : value;
}

const decimal = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
