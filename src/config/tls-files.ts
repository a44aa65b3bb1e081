import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { problem, warning, type Finding } from "./findings/problem.ts";
import type { TlsSettings } from "./settings.ts";

/** A certificate and its key, as PEM. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  /** Those who issue the certificates of clients; null: clients need none. */
  readonly clientCa: string | null;
  readonly expiresMs: number;
}

export interface TlsReading {
  /** Null if there is a problem. */
  readonly material: TlsMaterial | null;
  readonly findings: readonly Finding[];
}

/** Reads the files of `tls`, and checks that clients could connect with them. */
export function readTlsFiles({ certFile, keyFile, clientCaFile }: TlsSettings, nowMs: number): TlsReading {
  const cert = readPem(certFile, "cert_file");
  const key = readPem(keyFile, "key_file");
  const clientCa = clientCaFile === null ? null : readPem(clientCaFile, "client_ca_file");
  const unread = [cert, key, clientCa].flatMap((read) => (read === null || typeof read === "string" ? [] : [read]));
  if (typeof cert !== "string" || typeof key !== "string" || (clientCa !== null && typeof clientCa !== "string")) return bad(...unread);
  const certificate = certificateIn(cert);
  if (certificate === null) return bad(notACertificate(cert, certFile, "cert_file"));
  // A file that is still being written may end within the chain.
  if (certificatesIn(cert).length < markersIn(cert)) return bad(incomplete(certFile, "cert_file"));
  if (clientCa !== null && clientCaFile !== null) {
    const found = certificatesIn(clientCa).length;
    if (found === 0) return bad(notACertificate(clientCa, clientCaFile, "client_ca_file"));
    if (found < markersIn(clientCa)) return bad(incomplete(clientCaFile, "client_ca_file"));
  }
  const privateKey = privateKeyIn(key);
  if (privateKey === null) return bad(notAKey(key, keyFile));
  if (!certificate.checkPrivateKey(privateKey)) {
    const fix = `make a pair of one issue: the certificate of the server must be the first in ${certFile}`;
    return bad(problem(["tls", "key_file"], "this key does not belong to the certificate", fix));
  }
  const expiresMs = Date.parse(certificate.validTo);
  if (expiresMs <= nowMs) return bad(problem(["tls", "cert_file"], `this certificate expired on ${dayOf(expiresMs)}`, renewFix));
  const beginsMs = Date.parse(certificate.validFrom);
  if (beginsMs > nowMs) {
    const fix = "check the clock of this machine, or wait until then";
    return bad(problem(["tls", "cert_file"], `this certificate is valid only from ${new Date(beginsMs).toISOString()} on`, fix));
  }
  return { material: { cert, key, clientCa, expiresMs }, findings: [...expiryWarnings(expiresMs, nowMs), ...modeWarnings(keyFile)] };
}

/** Whole days, so that a certificate that expires tonight has none left. */
export function daysUntil(expiresMs: number, nowMs: number): number {
  return Math.floor((expiresMs - nowMs) / dayMs);
}

/** Issuers remind their customers at about this time, and most renew by themselves before. */
export const expiryWarningDays = 14;

const dayMs = 86_400_000;
const renewFix = "renew it, and put the new one in its place: the gateway notices";
/** Far more than a chain or a list of authorities needs, so that a wrong path does not fill the memory. */
const fileBytesMax = 4 * 1024 * 1024;

function bad(...findings: readonly Finding[]): TlsReading {
  return { material: null, findings };
}

function readPem(path: string, setting: string): string | Finding {
  const unreadable = (reason: string, fix: string): Finding => problem(["tls", setting], `${path} ${reason}`, fix);
  try {
    const file = statSync(path);
    if (!file.isFile()) return unreadable("is not a file", "give the path of a file in PEM format");
    if (file.size > fileBytesMax) return unreadable("is too large", "give the path of a file in PEM format");
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = (error as { readonly code?: string }).code ?? "unknown reason";
    if (code === "ENOENT") return unreadable("does not exist", "check the path, which is relative to the configuration file");
    if (code === "EACCES") {
      return unreadable(
        "cannot be read by the user that runs the gateway",
        `allow it, such as with: chgrp GROUP ${path} && chmod 640 ${path}; its folders need x`,
      );
    }
    return unreadable(`cannot be read (${code})`, "check the path and the permissions");
  }
}

function certificatesIn(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]+-----END (?:TRUSTED )?CERTIFICATE-----/g) ?? [];
  return blocks.flatMap((block) => certificateIn(block) ?? []);
}

/** How many certificates a text begins, whether or not they can be read. */
function markersIn(pem: string): number {
  return pem.match(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----/g)?.length ?? 0;
}

function incomplete(path: string, setting: string): Finding {
  return problem(["tls", setting], `${path} contains a certificate that cannot be read`, "write the file again, whole");
}

function certificateIn(pem: string): X509Certificate | null {
  try {
    return new X509Certificate(pem);
  } catch {
    return null;
  }
}

function privateKeyIn(pem: string): ReturnType<typeof createPrivateKey> | null {
  try {
    return createPrivateKey(pem);
  } catch {
    return null;
  }
}

function notACertificate(text: string, path: string, setting: string): Finding {
  const isKey = /PRIVATE KEY-----/.test(text) && !/CERTIFICATE-----/.test(text);
  if (isKey) return problem(["tls", setting], `${path} contains a key, not a certificate`, "swap the two files");
  const fix =
    "it must begin with -----BEGIN CERTIFICATE-----; convert another format with: openssl x509 -inform der -in FILE -out FILE.pem";
  return problem(["tls", setting], `${path} contains no certificate that can be read`, fix);
}

function notAKey(text: string, path: string): Finding {
  if (/ENCRYPTED/.test(text)) {
    return problem(["tls", "key_file"], `${path} is encrypted`, `decrypt it with: openssl pkey -in ${path} -out KEY.pem`);
  }
  if (/CERTIFICATE-----/.test(text)) return problem(["tls", "key_file"], `${path} contains a certificate, not a key`, "swap the two files");
  const fix = "it must begin with -----BEGIN PRIVATE KEY-----, or with EC or RSA before PRIVATE";
  return problem(["tls", "key_file"], `${path} contains no key that can be read`, fix);
}

function expiryWarnings(expiresMs: number, nowMs: number): readonly Finding[] {
  const days = daysUntil(expiresMs, nowMs);
  if (days >= expiryWarningDays) return [];
  return [
    warning(["tls", "cert_file"], `this certificate expires on ${dayOf(expiresMs)}, in ${days === 1 ? "1 day" : `${days} days`}`, renewFix),
  ];
}

/** Everybody on the machine could pretend to be this server. Files in containers often have such modes, so it is no error. */
function modeWarnings(keyFile: string): readonly Finding[] {
  const isOpen = (statSync(keyFile, { throwIfNoEntry: false })?.mode ?? 0) & 0o004;
  if (isOpen === 0) return [];
  return [warning(["tls", "key_file"], "every user of this machine can read the key", `restrict it with: chmod 640 ${keyFile}`)];
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
