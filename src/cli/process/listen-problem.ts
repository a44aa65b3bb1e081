/** Explains why the gateway cannot listen on an address, and how to fix it. `option` is the option that sets another one. */
export function listenProblem(error: unknown, { host, port, path }: ListenPlace, option: string): string {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
  if (path !== undefined) return socketProblem(code ?? message ?? String(error), path);
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  switch (code) {
    case "EADDRINUSE":
      return `Port ${port} on ${host} is already in use. Stop the program that uses it, or start with ${option} ${host}:PORT.`;
    case "EACCES":
    case "EPERM":
      return port > 0 && port < privilegedBelow
        ? `Port ${port} is below ${privilegedBelow}, which the system reserves for privileged users. Start with ${option} ${host}:${port + 8000} ` +
            `behind a proxy, or allow such ports: sysctl net.ipv4.ip_unprivileged_port_start=${port}.`
        : `The system does not allow this user to listen on ${address} (${code}). Start with ${option} HOST:PORT, or allow it.`;
    case "EADDRNOTAVAIL":
      return `This machine has no address ${host}. Listen on 127.0.0.1 for this machine only, or on 0.0.0.0 or [::] for all of its addresses: ${option} HOST:PORT.`;
    default:
      return code === undefined && /failed to listen/i.test(message ?? "")
        ? `Cannot listen on ${address}: the name does not resolve to an address of this machine. Give an address: ${option} 127.0.0.1:${port}.`
        : `Cannot listen on ${address} (${code ?? String(error)}). Start with ${option} HOST:PORT to listen elsewhere.`;
  }
}

/** Where a gateway wanted to listen. */
export interface ListenPlace {
  readonly host: string;
  readonly port: number;
  /** A unix socket, in place of the host and the port. */
  readonly path?: string;
}

function socketProblem(code: string, path: string): string {
  switch (code) {
    case "EADDRINUSE":
      return `Another program listens on ${path}. Stop it, or start with --listen unix:PATH.`;
    case "ENOTSOCK":
      return `There is a file at ${path} that is not a socket, and it is not overwritten. Remove it, or start with --listen unix:PATH.`;
    case "ENOENT":
      return `The folder of ${path} does not exist. Create it, and let the user that runs the gateway write to it.`;
    case "EACCES":
    case "EPERM":
      return `The user that runs the gateway may not create ${path} (${code}). Let it write to the folder, or start with --listen unix:PATH.`;
    default:
      return `Cannot listen on ${path} (${code}). Start with --listen unix:PATH or HOST:PORT to listen elsewhere.`;
  }
}

const privilegedBelow = 1024;
