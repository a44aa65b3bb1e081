import type { Finding } from "../config/findings/problem.ts";
import { daysUntil, expiryWarningDays, readTlsFiles, type TlsMaterial } from "../config/tls-files.ts";
import type { TlsSettings } from "../config/settings.ts";
import { watchFile, type FileWatch } from "../config/watch.ts";
import { StartProblem, configExitCode } from "../cli/process/start-problem.ts";
import type { ServerTls } from "../net/server/server-tls.ts";
import type { Log } from "../telemetry/log.ts";

export interface CertificatePorts {
  readonly log: Log;
  readonly wallMs: () => number;
  /** New connections get another certificate. */
  readonly onRenewed: (tls: ServerTls) => void;
  /** How long after files that cannot be used they are read again. */
  readonly againMs?: number;
}

/** The certificate of the listeners. It is read again when its files change, and kept as it is while they are not a valid pair. */
export class Certificate {
  private readonly watches: FileWatch[] = [];
  private readonly timer: ReturnType<typeof setInterval>;
  private again: ReturnType<typeof setTimeout> | null = null;
  private material: TlsMaterial;
  /** What was last found wrong with the files, so that it is logged once. */
  private fault = "";

  /** Throws if the files cannot be used. */
  constructor(
    private readonly settings: TlsSettings,
    private readonly ports: CertificatePorts,
  ) {
    const { material, findings } = readTlsFiles(settings, ports.wallMs());
    if (material === null) throw new StartProblem(`TLS cannot be used. ${sentences(findings)}`, configExitCode);
    this.material = material;
    this.warnOfExpiry();
    const files = [settings.certFile, settings.keyFile, ...(settings.clientCaFile === null ? [] : [settings.clientCaFile])];
    // Long enough for a program that writes one file after the other.
    for (const file of files) this.watches.push(watchFile(file, () => this.reload(), { debounceMs: 500 }));
    this.timer = setInterval(() => this.warnOfExpiry(), warnEveryMs);
    this.timer.unref();
  }

  get tls(): ServerTls {
    return this.tlsOf(this.material);
  }

  get expiresMs(): number {
    return this.material.expiresMs;
  }

  reload(): void {
    const { log, wallMs, onRenewed } = this.ports;
    if (this.again !== null) clearTimeout(this.again);
    this.again = null;
    const { material, findings } = readTlsFiles(this.settings, wallMs());
    if (material === null) return this.reject(sentences(findings));
    const { cert, key, clientCa } = this.material;
    const isSame = material.cert === cert && material.key === key && material.clientCa === clientCa;
    try {
      if (!isSame) onRenewed(this.tlsOf(material));
    } catch (error) {
      return this.reject(`The certificate cannot be used: ${String(error)}`);
    }
    this.fault = "";
    if (isSame) return;
    this.material = material;
    log.info("certificate_renewed", { expires: new Date(material.expiresMs).toISOString() });
    this.warnOfExpiry();
  }

  stop(): void {
    clearInterval(this.timer);
    if (this.again !== null) clearTimeout(this.again);
    for (const watch of this.watches) watch.close();
  }

  /** Looks again without being told: a permission that was missing, or a day that has not come, changes nothing about the files. */
  private reject(fault: string): void {
    const { log, againMs = againMsUsual } = this.ports;
    if (fault !== this.fault) log.error("certificate_rejected", { detail: `${fault} The old certificate stays in use.` });
    this.fault = fault;
    this.again = setTimeout(() => this.reload(), againMs);
    this.again.unref();
  }

  private tlsOf({ cert, key, clientCa }: TlsMaterial): ServerTls {
    return { cert, key, clientCa, isClientRequired: this.settings.clientCertificates === "required" };
  }

  private warnOfExpiry(): void {
    const { expiresMs } = this.material;
    const days = daysUntil(expiresMs, this.ports.wallMs());
    if (days >= expiryWarningDays) return;
    const expires = new Date(expiresMs).toISOString();
    const detail = "renew the certificate and put it in its place: the gateway notices";
    this.ports.log.warn("certificate_expires", { expires, days_left: days, file: this.settings.certFile, detail });
  }
}

function sentences(findings: readonly Finding[]): string {
  return findings
    .filter(({ severity }) => severity === "problem")
    .map(({ path, reason, fix }) => `${path.join(".")}: ${reason}: ${fix}.`)
    .join(" ");
}

const warnEveryMs = 12 * 3_600_000;
const againMsUsual = 60_000;
