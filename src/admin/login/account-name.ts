import { z } from "zod";
import { accountNamePattern } from "../../manage/accounts.ts";

export const accountName = z
  .string()
  .trim()
  .toLowerCase()
  .regex(accountNamePattern, "must be 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit");

export const role = z.enum(["admin", "viewer"]);

/** Its rules are checked where the name is known too. */
export const password = z.string().min(1).max(4096);
