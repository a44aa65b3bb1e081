/** Where gateways export their traces and metrics to: it takes everything, as a collector that keeps up does. Ends with the bench. */
export function startCollector(): Collector {
  let callsCounted = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      if (request.url.endsWith("/v1/metrics")) callsCounted = callsIn((await request.json()) as Report) ?? callsCounted;
      else await request.arrayBuffer();
      return Response.json({});
    },
  });
  server.unref();
  return {
    origin: server.url.origin,
    get callsCounted() {
      return callsCounted;
    },
  };
}

export interface Collector {
  readonly origin: string;
  /** How many calls the gateway had counted that has reported last. */
  readonly callsCounted: number;
}

interface Report {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly { readonly name: string; readonly sum?: Sum }[] }[];
  }[];
}

interface Sum {
  readonly dataPoints: readonly { readonly asDouble: number }[];
}

function callsIn({ resourceMetrics }: Report): number | null {
  const metrics = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
  const requests = metrics.find(({ name }) => name === "sluice_requests_total")?.sum;
  return requests?.dataPoints.reduce((sum, { asDouble }) => sum + asDouble, 0) ?? null;
}
