import type { TrustedProxies } from "../gateway/snapshot.ts";
import { clientAddress } from "../net/server/forwarded.ts";
import { tlsOptions, type ServerTls } from "../net/server/server-tls.ts";
import type { AdminHandler } from "./handler.ts";
import { errorResponse, internalError } from "./respond.ts";
import { requestIdOf, securityHeaders } from "./security-headers.ts";

export interface AdminListenOptions {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** Called with the first request: a gateway whose admin API nobody uses need not load it, which takes 5 MB and a fifth of a start. */
  readonly handler: () => Promise<AdminHandler>;
  readonly onBug: (error: unknown, requestId: string) => void;
  /** It is reached over https, by its own certificate or through a proxy. */
  readonly secure?: boolean;
  /** Several processes share the port. */
  readonly reusePort?: boolean;
  /** The proxies that tell the address of a caller, at this moment. */
  readonly trustedProxies?: () => TrustedProxies | null;
  /** Null for plain HTTP. */
  readonly tls?: ServerTls | null;
}

export interface AdminListener {
  readonly url: string;
  /** Uses another certificate for new connections. */
  renew(tls: ServerTls): void;
  /** Lets running requests finish. */
  stopListening(): Promise<void>;
  close(): Promise<void>;
}

/** The listener of the admin API. */
export function listenAdmin(options: AdminListenOptions): AdminListener {
  const { host, onBug, secure = false } = options;
  let loading: Promise<AdminHandler> | null = null;
  const load = async (): Promise<AdminHandler> => {
    try {
      return await options.handler();
    } catch (error) {
      loading = null;
      throw error;
    }
  };
  const serve = (port: number, tls: ServerTls | null): Bun.Server<undefined> =>
    Bun.serve({
      hostname: host,
      port,
      reusePort: tls !== null || (options.reusePort ?? false),
      ...(tls === null ? {} : { tls: adminTls(tls) }),
      idleTimeout: 60,
      // The limit of `readJsonBody` applies, which answers with an error object.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      fetch: async (request, self) => {
        const peer = self.requestIP(request)?.address ?? "unknown";
        const address = clientAddress(peer, (name) => request.headers.get(name), options.trustedProxies?.() ?? null);
        const { handle } = await (loading ??= load());
        return handle(request, address, () => self.timeout(request, 0));
      },
      error: (error) => {
        onBug(error, "");
        return errorResponse(internalError, securityHeaders(requestIdOf(null), secure));
      },
    });
  const tls = options.tls ?? null;
  let server = serve(options.port, tls);
  const { hostname, port } = server;
  return {
    url: `${tls === null ? "http" : "https"}://${hostname?.includes(":") ? `[${hostname}]` : hostname}:${port}`,
    renew: (renewed) => {
      const old = server;
      server = serve(port ?? options.port, renewed);
      void old.stop(false);
    },
    stopListening: async () => {
      await server.stop(false);
    },
    close: async () => {
      await server.stop(true);
    },
  };
}

/** This server cannot tell a wrong certificate from none, so that optional ones are not asked for. */
function adminTls(tls: ServerTls): Bun.TLSOptions {
  return tlsOptions(tls.isClientRequired ? tls : { ...tls, clientCa: null });
}
