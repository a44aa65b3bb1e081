import { describe, expect, test } from "bun:test";
import { serverAddresses } from "../../../src/servers/addresses.ts";

describe("an address", () => {
  test.each([
    ["postgres://user:pass@db1:5432,db2:5433/sluice?sslmode=require", ["db1:5432", "db2:5433"]],
    ["postgres://db1,db2/sluice", ["db1", "db2"]],
    ["redis://:p%2Cw@[::1]:6379,[fe80::1]:6380/2", ["[::1]:6379", "[fe80::1]:6380"]],
    ["redis://:a@b,c@host:6379", ["host:6379"]],
    ["postgres:///sluice", [""]],
  ])("%s names %p, each with the same user, path and options", (address, hosts) => {
    const servers = serverAddresses(address)!;
    expect(servers.map(({ host }) => host)).toEqual(hosts);
    for (const { host, url } of servers) expect(url).toBe(address.replace(hosts.join(","), host));
  });

  test.each(["postgres://db1,,db2/x", "postgres://db1,/x", "redis://,a", "db1,db2", "", `redis://${Array(9).fill("a").join(",")}`])(
    "%p is not one",
    (address) => expect(serverAddresses(address)).toBeNull(),
  );
});
