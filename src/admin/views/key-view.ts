import { z } from "zod";
import { operations } from "../../operations/operation.ts";
import { limitsAnswer } from "../fields/limits-field.ts";
import { moment } from "../fields/scalars.ts";

export const operation = z.enum(operations);
export const offOrSplit = z.enum(["off", "split"]);

/** The schema of `keyView`. */
export const keyAnswer = z.strictObject({
  id: z.string(),
  name: z.string(),
  source: z.enum(["store", "file"]).describe("Where it is defined. Keys of the configuration file can only be changed there."),
  state: z.enum(["active", "expired", "revoked"]),
  owner: z.string().nullable(),
  note: z.string().nullable(),
  models: z.array(z.string()).nullable().describe("Patterns with `*`; null means every model."),
  operations: z.array(operation).nullable(),
  channels: z.array(z.string()).nullable().describe("Names or tags, patterns with `*`; null means every channel."),
  limits: limitsAnswer,
  group: z.string().nullable().describe("The id of its group."),
  long_audio: offOrSplit,
  long_input: offOrSplit,
  expires_at: moment.nullable(),
  created_at: moment.nullable(),
  revoked_at: moment.nullable(),
  last_used_at: moment.nullable().describe("To the minute."),
  tokens: z.array(z.strictObject({ last4: z.string(), created_at: moment, expires_at: moment.nullable() })),
});
