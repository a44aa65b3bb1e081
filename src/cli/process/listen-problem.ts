/** Explains why the gateway cannot listen on an address, and how to fix it. `option` is the option that sets another one. */
export function listenProblem(error: unknown, { host, port }: { readonly host: string; readonly port: number }, option: string): string {
  const { code, message } = error as { readonly code?: string; readonly message?: string };
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

const privilegedBelow = 1024;
