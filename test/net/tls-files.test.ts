import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Certificate } from "../../src/app/certificate.ts";
import { loadConfig } from "../../src/config/load.ts";
import { Log } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { makeCertificates, type Certificates } from "../support/tls.ts";

const certificates = await makeCertificates();
const directory = mkdtempSync(join(tmpdir(), "sluice-tls-files-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The findings about a configuration whose files hold these texts, and what is in the settings. */
async function findings(
  files: { readonly cert?: string; readonly key?: string; readonly ca?: string },
  more: object = {},
): Promise<unknown> {
  const named = { cert_file: "server.pem", key_file: "server.key" };
  const { cert, key, ca } = files;
  for (const [name, text] of [
    ["server.pem", cert],
    ["server.key", key],
    ["ca.pem", ca],
  ] as const) {
    rmSync(join(directory, name), { force: true });
    if (text !== undefined) writeFileSync(join(directory, name), text, { mode: 0o600 });
  }
  const channels = [{ name: "up", base_url: "https://up.example.com/v1", models: ["m"] }];
  const text = JSON.stringify({ channels, listen: "0.0.0.0:4400", tls: { ...named, ...more } });
  const loaded = await loadConfig({ path: join(directory, "sluice.yaml"), text, env: {}, nofile: 1024 });
  const found = loaded.ok ? loaded.warnings : loaded.problems;
  return { ok: loaded.ok, found: found.map(({ path, reason }) => `${path}: ${reason.replaceAll(`${directory}/`, "")}`) };
}

describe.skipIf(certificates === null)("the files of tls", () => {
  const { valid, renewed, expired, selfSigned, authority } = (certificates ?? {}) as Certificates;

  test("that are a pair are accepted, and the listener needs no other warning", async () => {
    expect(await findings(renewed)).toEqual({ ok: true, found: [] });
    expect(await findings({ ...renewed, cert: renewed.cert + authority })).toEqual({ ok: true, found: [] });
  });

  test("that expire soon, or whose key everybody can read, get a warning", async () => {
    expect(await findings(valid)).toEqual({
      ok: true,
      found: [expect.stringMatching(/^tls.cert_file: this certificate expires on .*, in 1 day$/)],
    });
    await findings(renewed);
    chmodSync(join(directory, "server.key"), 0o644);
    const text = JSON.stringify({ tls: { cert_file: "server.pem", key_file: "server.key" } });
    const loaded = await loadConfig({ path: join(directory, "sluice.yaml"), text, env: {}, nofile: 1024 });
    expect(loaded.ok && loaded.warnings.map(({ fix }) => fix)).toContainEqual(expect.stringContaining("chmod 640"));
  });

  test.each<[string, () => { cert?: string; key?: string; ca?: string }, object, string]>([
    ["no certificate", () => ({ key: valid.key }), {}, "tls.cert_file: server.pem does not exist"],
    ["no key", () => ({ cert: valid.cert }), {}, "tls.key_file: server.key does not exist"],
    [
      "a pair of two issues",
      () => ({ cert: valid.cert, key: renewed.key }),
      {},
      "tls.key_file: this key does not belong to the certificate",
    ],
    ["swapped files", () => ({ cert: valid.key, key: valid.cert }), {}, "tls.cert_file: server.pem contains a key, not a certificate"],
    [
      "a certificate for a key",
      () => ({ cert: valid.cert, key: valid.cert }),
      {},
      "tls.key_file: server.key contains a certificate, not a key",
    ],
    [
      "half a certificate",
      () => ({ cert: valid.cert.slice(0, 300), key: valid.key }),
      {},
      "tls.cert_file: server.pem contains no certificate that can be read",
    ],
    [
      "half a key",
      () => ({ cert: valid.cert, key: valid.key.slice(0, 60) }),
      {},
      "tls.key_file: server.key contains no key that can be read",
    ],
    ["an encrypted key", () => ({ cert: valid.cert, key: encryptedKey }), {}, "tls.key_file: server.key is encrypted"],
    ["an empty file", () => ({ cert: "", key: valid.key }), {}, "tls.cert_file: server.pem contains no certificate that can be read"],
    [
      "a chain that is cut off",
      () => ({ ...valid, cert: valid.cert + authority.slice(0, 300) }),
      {},
      "tls.cert_file: server.pem contains a certificate that cannot be read",
    ],
    ["an expired certificate", () => expired, {}, "expired on"],
    [
      "no issuer of client certificates",
      () => valid,
      { client_certificates: "required" },
      "tls.client_ca_file: this is missing, so that no client certificate could be checked",
    ],
    [
      "an issuer without use",
      () => ({ ...valid, ca: authority }),
      { client_ca_file: "ca.pem" },
      "has no effect while client_certificates is none",
    ],
    [
      "an issuer that is none",
      () => ({ ...valid, ca: "x" }),
      { client_ca_file: "ca.pem", client_certificates: "optional" },
      "tls.client_ca_file: ca.pem contains no certificate that can be read",
    ],
  ])("are refused in words: %s", async (_, files, more, reason) => {
    expect(await findings(files(), more)).toEqual({ ok: false, found: [expect.stringContaining(reason)] });
  });

  test("are not read by commands that do not listen: a key can be revoked although the certificate has expired", async () => {
    expect(await findings(expired)).toMatchObject({ ok: false });
    const text = JSON.stringify({ tls: { cert_file: "server.pem", key_file: "nowhere.key" } });
    const source = { path: join(directory, "sluice.yaml"), text, env: {}, nofile: 1024, checksCertificate: false };
    expect(await loadConfig(source)).toMatchObject({ ok: true });
  });

  test("and a self-signed certificate will do", async () => {
    expect(await findings(selfSigned)).toMatchObject({ ok: true });
  });

  test("that cannot be used yet are read again without a change: a permission may be missing, or a clock behind", async () => {
    const put = ({ cert, key }: { readonly cert: string; readonly key: string }): void => {
      writeFileSync(join(directory, "server.pem"), cert);
      writeFileSync(join(directory, "server.key"), key, { mode: 0o600 });
    };
    const settings = {
      certFile: join(directory, "server.pem"),
      keyFile: join(directory, "server.key"),
      clientCaFile: null,
      clientCertificates: "none" as const,
      admin: true,
    };
    const clock = { behindMs: 0, reads: 0 };
    const given: string[] = [];
    let said = "";
    put(valid);
    const certificate = new Certificate(settings, {
      log: new Log((bytes) => {
        said += Buffer.from(bytes).toString();
        return bytes.length;
      }),
      wallMs: () => {
        clock.reads += 1;
        return Date.now() - clock.behindMs;
      },
      onRenewed: ({ cert }) => given.push(cert),
      againMs: 10,
    });
    clock.behindMs = 86_400_000;
    put(renewed);
    certificate.reload();
    clock.reads = 0;
    // The change of the files itself is noticed twice at most.
    await eventually("they are read again and again", () => clock.reads > 5);
    expect(given).toEqual([]);
    clock.behindMs = 0;
    await eventually("they are used", () => given.length > 0);
    certificate.stop();
    expect(given).toEqual([renewed.cert]);
    expect(said.match(/certificate_rejected/g)?.length).toBe(1);
  });
});

const encryptedKey =
  "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIH0MF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBCq\n-----END ENCRYPTED PRIVATE KEY-----\n";
