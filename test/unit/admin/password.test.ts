import { expect, test } from "bun:test";
import { dummyHash, hashPassword, verifyPassword } from "../../../src/admin/login/password.ts";

test("the dummy hash takes as long to compare as a real one, and no password matches it", async () => {
  const costOf = (hash: string): string => hash.slice(0, hash.indexOf("p=1$"));
  const real = await hashPassword("a good password");
  expect(costOf(dummyHash)).toBe(costOf(real));
  expect(await verifyPassword("a good password", real)).toBe(true);
  expect(await verifyPassword("another one", real)).toBe(false);
  expect(await verifyPassword("a good password", null)).toBe(false);
  expect(await Bun.password.verify("a good password", dummyHash)).toBe(false);
});
