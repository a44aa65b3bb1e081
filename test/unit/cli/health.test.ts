import { expect, test } from "bun:test";
import { askHealth, healthAddress } from "../../../src/cli/health.ts";

/** A gateway that gives this answer, and where it was asked. */
function gateway(answer: (signal: AbortSignal) => Promise<Response>): {
  readonly asked: string[];
  readonly fetch: Parameters<typeof askHealth>[1];
} {
  const asked: string[] = [];
  return {
    asked,
    fetch: (url, { signal, unix = "" }) => {
      asked.push(`${unix}${url}`);
      return answer(signal ?? new AbortController().signal);
    },
  };
}

test.each([
  ["http://127.0.0.1:4400", "http://127.0.0.1:4400/readyz"],
  ["http://127.0.0.1:4400/v1", "http://127.0.0.1:4400/readyz"],
  ["https://[::1]:4400/", "https://[::1]:4400/readyz"],
])("a gateway at %s is healthy if it is ready for calls", async (address, url) => {
  const { asked, fetch } = gateway(async () => Response.json({ status: "ready" }));
  expect(await askHealth(address, fetch)).toEqual({ text: `${new URL(url).origin} is ready`, exitCode: 0 });
  expect(asked).toEqual([url]);
});

test("a gateway on a unix socket is asked there", async () => {
  const { asked, fetch } = gateway(async () => Response.json({ status: "ready" }));
  expect(await askHealth("unix:/run/sluice.sock", fetch)).toEqual({ text: "unix:/run/sluice.sock is ready", exitCode: 0 });
  expect(asked).toEqual(["/run/sluice.sockhttp://localhost/readyz"]);
});

test.each([503, 404, 302, 500])("a gateway that answers with %d is not", async (status) => {
  const { fetch } = gateway(async () => new Response("draining", { status }));
  expect(await askHealth("http://127.0.0.1:4400", fetch)).toEqual({
    text: `http://127.0.0.1:4400 is not ready: it answered with status ${status}`,
    exitCode: 1,
  });
});

test("neither is one that cannot be reached, says nothing, or has no address; a password in it is not printed", async () => {
  const refused = gateway(() => Promise.reject(new Error("ECONNREFUSED")));
  expect(await askHealth("http://name:word@127.0.0.1:4400", refused.fetch)).toEqual({
    text: "http://127.0.0.1:4400 is not ready: it cannot be reached",
    exitCode: 1,
  });
  const silent = gateway((signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))));
  expect(await askHealth("http://127.0.0.1:4400", silent.fetch, 5)).toEqual({
    text: "http://127.0.0.1:4400 is not ready: no answer within 0.005 s",
    exitCode: 1,
  });
  for (const address of ["127.0.0.1:4400", "ftp://127.0.0.1", "", "localhost"]) {
    expect((await askHealth(address, refused.fetch)).exitCode).toBe(1);
  }
});

test("is asked at the address that is given, else at that of the variable, else where a gateway listens by itself", () => {
  const env = { SLUICE_HEALTH_URL: "https://127.0.0.1:4400" };
  expect(healthAddress("http://127.0.0.1:8080", env)).toBe("http://127.0.0.1:8080");
  expect(healthAddress(null, env)).toBe("https://127.0.0.1:4400");
  expect(healthAddress(null, {})).toBe("http://127.0.0.1:4400");
  expect(healthAddress(null, { SLUICE_HEALTH_URL: "" })).toBe("http://127.0.0.1:4400");
});
