/** Where gateways export their traces and metrics to: it takes everything, as a collector that keeps up does. Ends with the bench. */
export function startCollector(): string {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      await request.arrayBuffer();
      return Response.json({});
    },
  });
  server.unref();
  return server.url.origin;
}
