/** Whether a gateway answers, in words. */
export interface HealthAnswer {
  readonly text: string;
  readonly exitCode: 0 | 1;
}

type HealthFetch = (url: string, init: BunFetchRequestInit) => Promise<Response>;

/** Where a gateway listens unless it is told otherwise. */
const usualAddress = "http://127.0.0.1:4400";

/** Which gateway is asked. The variable is for the health check of an image, whose command cannot be changed where there is no shell. */
export function healthAddress(given: string | null, env: Readonly<Record<string, string | undefined>>): string {
  return given ?? (env["SLUICE_HEALTH_URL"] || usualAddress);
}

/**
 * Asks a running gateway whether it serves calls, for supervisors without an HTTP client of their own, such as the health check of a
 * container. `/readyz` also fails while the process is about to end.
 */
export async function askHealth(address: string, fetchLike: HealthFetch, timeoutMs = 5_000): Promise<HealthAnswer> {
  const socket = address.startsWith("unix:") ? address.slice("unix:".length) : null;
  const url = readyUrl(socket === null ? address : "http://localhost");
  if (url === null) return { text: `${address} is not an address such as ${usualAddress} or unix:/run/sluice.sock`, exitCode: 1 };
  const name = socket === null ? url.origin : address;
  try {
    const response = await fetchLike(url.href, {
      ...(socket === null ? {} : { unix: socket }),
      signal: AbortSignal.timeout(timeoutMs),
      redirect: "manual",
      // Nothing secret is sent, and the certificate is for a name that this machine may not have.
      tls: { rejectUnauthorized: false },
    });
    // The body is not read: whoever answers there may not be a gateway, and the status tells enough.
    await response.body?.cancel();
    const text = response.ok ? `${name} is ready` : `${name} is not ready: it answered with status ${response.status}`;
    return { text, exitCode: response.ok ? 0 : 1 };
  } catch (error) {
    const reason =
      error instanceof Error && error.name === "TimeoutError" ? `no answer within ${timeoutMs / 1000} s` : "it cannot be reached";
    return { text: `${name} is not ready: ${reason}`, exitCode: 1 };
  }
}

function readyUrl(address: string): URL | null {
  const url = URL.parse(address);
  return url === null || !["http:", "https:"].includes(url.protocol) ? null : new URL("/readyz", url);
}
