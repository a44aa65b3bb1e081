import { existsSync } from "node:fs";
import { join } from "node:path";
import { packageDirectory } from "../package-directory.ts";

/**
 * ONNX Runtime as a shared library, or `null` where there is none for this platform. It comes from the packages of sherpa-onnx, because
 * there is one for each platform (npm installs only its own), and because it is built without telemetry.
 */
export function onnxLibrary(): string | null {
  const directory = packageDirectory(`sherpa-onnx-${process.platform}-${process.arch}`);
  if (directory === null) return null;
  const path = join(directory, process.platform === "darwin" ? "libonnxruntime.dylib" : "libonnxruntime.so");
  return existsSync(path) ? path : null;
}
