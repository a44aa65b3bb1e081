import type { NewKey } from "../../src/keys/stored-key.ts";
import { unlimited } from "../../src/limits/limits.ts";

/** A key that may do everything, for what a test wants to say otherwise. */
export const newKey: NewKey = {
  name: "app",
  owner: null,
  note: null,
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: false },
  group: null,
  limits: unlimited,
};
