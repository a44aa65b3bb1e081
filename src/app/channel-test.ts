import type { ChannelSetting } from "../config/settings.ts";
import { openPrivateGateway, type PrivateHost } from "../lab/private-gateway.ts";
import { testCalls, type TestAnswer, type TestCall, type TestTarget, type WantedCalls } from "../manage/channel-test/test-calls.ts";

/**
 * Makes real calls to one channel, whatever its health is: through a private gateway, so that neither limits nor receipts nor the health of
 * the running one are touched, and no other channel can answer instead.
 */
export async function callChannel(
  host: PrivateHost,
  channel: ChannelSetting,
  discovered: ReadonlyMap<string, readonly string[]>,
  wanted: WantedCalls,
  signal: AbortSignal,
): Promise<readonly TestCall[]> {
  const gateway = openPrivateGateway(host, { name: "channel-test", ports: host.ports, channels: [channel], discovered, routing: {} });
  const calls: TestCall[] = [];
  try {
    for await (const call of testCalls(testTarget(gateway.url, gateway.token, host.ports.nowMs, signal), wanted)) {
      calls.push(call);
      if (signal.aborted) break;
    }
  } finally {
    await gateway.close();
  }
  return calls;
}

/** A gateway as a client of this process sees it. */
export function testTarget(url: string, key: string, nowMs: () => number, signal: AbortSignal | null = null): TestTarget {
  const send = async (path: string, body: string | FormData | null): Promise<TestAnswer | null> => {
    const late = AbortSignal.timeout(callMsMax);
    try {
      const response = await fetch(`${url}${path}`, {
        method: body === null ? "GET" : "POST",
        headers: { authorization: `Bearer ${key}`, ...(typeof body === "string" ? { "content-type": "application/json" } : undefined) },
        body,
        signal: signal === null ? late : AbortSignal.any([late, signal]),
      });
      const { status, headers } = response;
      return { status, type: headers.get("content-type") ?? "", bytes: new Uint8Array(await response.arrayBuffer()) };
    } catch (error) {
      if (late.aborted) return null;
      throw error;
    }
  };
  return { send, nowMs };
}

/** A model of this machine may have to be loaded first. */
const callMsMax = 120_000;
