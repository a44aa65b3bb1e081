// Needs: models. It loads a part of Whisper.
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onnxLibrary } from "../../packages/embedded/src/onnx/library.ts";
import { openOnnxSession } from "../../packages/embedded/src/onnx/session.ts";
import { floats, integers } from "../../packages/embedded/src/onnx/tensor.ts";
import { defaultWeights, encoderFile } from "../../packages/embedded/src/transcription/network.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const options = { threads: 1, arena: false, memoryPattern: true, settings: {} };

test("the library is that of this platform", () => {
  expect(existsSync(onnxLibrary() ?? "")).toBe(true);
});

test("a file that is missing, or is no model, is told as such", async () => {
  const broken = join(folder, "broken.onnx");
  writeFileSync(broken, "this is not a model");
  expect(await thrownBy(openOnnxSession(join(folder, "none.onnx"), options))).toContain("none.onnx");
  expect(await thrownBy(openOnnxSession(broken, options))).toContain("broken.onnx");
});

test("inputs and outputs that the model does not have are told, and so is a model that was closed", async () => {
  const session = await openOnnxSession(join(defaultWeights(), encoderFile), options);
  const picture = floats(new Float32Array(80 * 3000), [1, 80, 3000]);
  expect(await thrownBy(session.run({ nothing: picture }, { last_hidden_state: null }))).toContain("nothing");
  expect(await thrownBy(session.run({ input_features: picture }, { nothing: null }))).toContain("nothing");
  expect(await thrownBy(session.run({ input_features: integers([1], [1]) }, { last_hidden_state: null }))).toContain("data type");
  const outputs = await session.run({ input_features: picture }, { last_hidden_state: null });
  expect(outputs("last_hidden_state").dims).toEqual([1, 1500, 512]);
  expect(() => outputs("something else")).toThrow("something else");
  session.close();
  session.close();
  expect(await thrownBy(session.run({ input_features: picture }, { last_hidden_state: null }))).toContain("closed");
});

async function thrownBy(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
