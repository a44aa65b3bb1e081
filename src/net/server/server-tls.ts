/** What a listener needs to speak TLS: PEM texts, and what clients must show. */
export interface ServerTls {
  readonly cert: string;
  readonly key: string;
  /** Who issues the certificates of clients. Null: clients are asked for none. */
  readonly clientCa: string | null;
  /** A client without a certificate is refused. */
  readonly isClientRequired: boolean;
}

/**
 * The runtime's options. Its oldest version is TLS 1.2. An optional certificate is checked in `isRefused`: the runtime would refuse
 * clients without one as well.
 */
export function tlsOptions({ cert, key, clientCa, isClientRequired }: ServerTls): Bun.TLSOptions {
  return { cert, key, ...(clientCa === null ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: isClientRequired }) };
}

/** Whether a client is refused after its handshake: it has shown a certificate that nobody we trust has issued. */
export function isRefused(socket: TlsPeer, isDone: boolean, error: Error | null, { clientCa }: ServerTls): boolean {
  if (!isDone) return true;
  return clientCa !== null && error !== null && Object.keys(socket.getPeerCertificate() ?? {}).length > 0;
}

/** The part of a socket that knows who is at the other end. */
export interface TlsPeer {
  getPeerCertificate(): object | null | undefined;
}

/** Whether a connection failed by what its client sent, such as a damaged record, and not by a bug of ours. */
export function isTlsError(error: Error): boolean {
  const { code } = error as { readonly code?: string };
  return code === "EPROTO" || code === "ECONNRESET";
}
