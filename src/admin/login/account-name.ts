import { z } from "zod";

/** Names of accounts and tokens: short, the same in any case, and harmless wherever they are shown. */
export const accountName = z
  .string()
  .trim()
  .toLowerCase()
  .regex(/^[a-z0-9][a-z0-9._@+-]{0,63}$/, "must be 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit");

export const role = z.enum(["admin", "viewer"]);

/** Its rules are checked where the name is known too. */
export const password = z.string().min(1).max(4096);
