import { expect, test } from "bun:test";
import { inUseProblem, type StoreMaintenance } from "../../../src/manage/backup.ts";

function maintenance(isInUse: boolean): StoreMaintenance {
  const unused = (): never => {
    throw new Error("only isInUse is called");
  };
  return { dataDir: "/data", masterKeyGiven: false, backup: unused, restore: unused, rotateMasterKey: unused, isInUse: () => isInUse };
}

test("the master key is not replaced while a gateway uses the store", () => {
  expect(inUseProblem(maintenance(true))).toMatchObject({
    code: "conflict",
    message: "A gateway is using /data. Stop all gateways of this store first.",
  });
  expect(inUseProblem(maintenance(false))).toBeNull();
});
