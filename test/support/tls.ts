import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Certificates good and bad for 127.0.0.1; null on a machine without the openssl command. */
export async function makeCertificates(): Promise<Certificates | null> {
  if (Bun.which("openssl") === null) return null;
  const directory = await mkdtemp(join(tmpdir(), "sluice-tls-"));
  try {
    await selfSign(directory, "authority", "basicConstraints=critical,CA:TRUE");
    await selfSign(directory, "self-signed", ourNames);
    return {
      authority: await readFile(join(directory, "authority.pem"), "utf8"),
      valid: await issue(directory, "valid", ourNames, 2),
      renewed: await issue(directory, "renewed", ourNames, 90),
      expired: await issue(directory, "expired", ourNames, -1),
      wrongName: await issue(directory, "wrong-name", "subjectAltName=DNS:elsewhere.test", 2),
      selfSigned: await pairOf(directory, "self-signed"),
    };
  } finally {
    await rm(directory, { recursive: true });
  }
}

export interface Certificates {
  /** The certificate of the authority, as PEM: trust it (`NODE_EXTRA_CA_CERTS`) and only the other faults remain. */
  readonly authority: string;
  /** Issued by the authority, for 127.0.0.1 and localhost. */
  readonly valid: KeyPair;
  /** The same, of another issue, and for three months instead of two days. */
  readonly renewed: KeyPair;
  readonly expired: KeyPair;
  readonly wrongName: KeyPair;
  /** Issued by itself; trusted by nobody. */
  readonly selfSigned: KeyPair;
}

/** Both as PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

const ourNames = "subjectAltName=IP:127.0.0.1,DNS:localhost";
const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

async function selfSign(directory: string, name: string, extension: string): Promise<void> {
  const subject = ["-subj", `/CN=chaos ${name}`, "-addext", extension];
  const files = ["-keyout", `${name}.key`, "-out", `${name}.pem`];
  await openssl(directory, ["req", "-x509", ...newKey, ...files, "-days", "2", ...subject]);
}

async function issue(directory: string, name: string, extension: string, days: number): Promise<KeyPair> {
  await writeFile(join(directory, `${name}.ext`), extension);
  const request = ["-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=chaos ${name}`];
  await openssl(directory, ["req", ...newKey, ...request]);
  const authority = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial"];
  const files = ["-in", `${name}.csr`, "-out", `${name}.pem`, "-extfile", `${name}.ext`];
  await openssl(directory, ["x509", "-req", ...authority, ...files, "-days", String(days)]);
  return pairOf(directory, name);
}

async function pairOf(directory: string, name: string): Promise<KeyPair> {
  return {
    key: await readFile(join(directory, `${name}.key`), "utf8"),
    cert: await readFile(join(directory, `${name}.pem`), "utf8"),
  };
}

async function openssl(directory: string, command: readonly string[]): Promise<void> {
  const child = Bun.spawn(["openssl", ...command], { cwd: directory, stderr: "pipe" });
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code !== 0) throw new Error(`openssl ${command[0]} failed: ${complaint}`);
}
