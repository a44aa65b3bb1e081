import { doubtful, failed, fine, type Diagnosis } from "./diagnosis.ts";

/** An address that channels share. */
export interface UpstreamAddress {
  readonly baseUrl: string;
  readonly proxy: string | null;
  readonly channels: readonly string[];
}

/** How an upstream answered, or why it did not. */
export type UpstreamProbe =
  | { readonly kind: "answered"; readonly tookMs: number; readonly serverMs: number | null; readonly wallMs: number }
  | { readonly kind: "unresolved"; readonly host: string }
  | { readonly kind: "failed"; readonly code: string };

interface ProbedChannel {
  readonly name: string;
  readonly baseUrl: string;
  readonly proxy: string | null;
}

/** Each address once, whatever its path. */
export function upstreamAddresses(channels: readonly ProbedChannel[]): readonly UpstreamAddress[] {
  const byOrigin = new Map<string, { baseUrl: string; proxy: string | null; channels: string[] }>();
  for (const { name, baseUrl, proxy } of channels) {
    const url = URL.parse(baseUrl);
    if (url === null || !["http:", "https:"].includes(url.protocol)) continue;
    const key = `${url.origin} ${proxy ?? ""}`;
    const known = byOrigin.get(key);
    if (known === undefined) byOrigin.set(key, { baseUrl, proxy, channels: [name] });
    else known.channels.push(name);
  }
  return [...byOrigin.values()];
}

export function upstreamDiagnosis({ baseUrl, proxy, channels }: UpstreamAddress, probe: UpstreamProbe): Diagnosis {
  const { host, protocol, hostname } = new URL(baseUrl);
  const way = proxy === null ? host : `${host} through the proxy ${URL.parse(proxy)?.host ?? "of the channel"}`;
  const name = `${channels.slice(0, 3).join(", ")}${channels.length > 3 ? ` and ${channels.length - 3} more` : ""}: ${way}`;
  switch (probe.kind) {
    case "answered":
      return fine("channel", `${name} answers (${Math.round(probe.tookMs)} ms)`);
    case "unresolved":
      return failed(
        "channel",
        `${name}: the name ${probe.host} cannot be resolved`,
        "Check its spelling (base_url), and the name servers of this machine: getent hosts NAME, /etc/resolv.conf.",
      );
    case "failed":
      return failed("channel", `${name}: ${reasonOf(probe.code)}`, fixOf(probe.code, protocol, hostname, proxy));
  }
}

function reasonOf(code: string): string {
  if (isCertificate(code)) return `its certificate is not accepted (${code})`;
  if (isTimeout(code)) return "it does not answer in time";
  return `no connection (${code})`;
}

function fixOf(code: string, protocol: string, host: string, proxy: string | null): string {
  if (isCertificate(code)) {
    return (
      "Check the clock of this machine. If a proxy of your network opens TLS connections, or the server has a certificate of your own,\n" +
      "name the authority in NODE_EXTRA_CA_CERTS=/path/ca.pem before the start."
    );
  }
  if (proxy !== null) return "Check that the proxy runs and may reach this host (proxy of the channel).";
  const port = protocol === "https:" ? "443" : "the port";
  return `Check that the server runs, and that a firewall lets this machine reach ${host} on ${port}. If a proxy is needed, set proxy in the channel.`;
}

function isCertificate(code: string): boolean {
  return /CERT|SIGNED|VERIFY|TLS|SSL|EPROTO/i.test(code);
}

function isTimeout(code: string): boolean {
  return /timeout|timedout/i.test(code);
}

/** How far the clock of this machine is off, by the dates of all upstreams: the middle one, because a server's clock may be wrong too. */
export function clockDiagnosis(probes: readonly UpstreamProbe[]): Diagnosis | null {
  const skews = probes
    .flatMap((probe) => (probe.kind === "answered" && probe.serverMs !== null ? [probe.wallMs - probe.serverMs] : []))
    .toSorted((one, other) => one - other);
  const skewMs = skews[Math.floor(skews.length / 2)];
  if (skewMs === undefined) return null;
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  const fix = "Set the clock and keep it right: timedatectl set-ntp true, or chrony.";
  const message = `The clock of this machine is ${seconds} s ${skewMs > 0 ? "ahead of" : "behind"} the upstreams`;
  // Signatures of requests and tokens are refused beyond five minutes.
  if (seconds > 300) return failed("clock", message, fix);
  return seconds > 30 ? doubtful("clock", message, fix) : fine("clock", "The clock agrees with the upstreams");
}
