import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import type { BundledFile } from "./bundle.ts";
import { consoleAssets } from "./pages.ts";

/** A file as it is sent: compressed once, not for each request. */
export interface ConsoleFile {
  readonly type: string;
  readonly etag: string;
  /** Its name changes with its content, so that browsers may keep it. */
  readonly isImmutable: boolean;
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly gzip: Uint8Array<ArrayBuffer>;
  readonly brotli: Uint8Array<ArrayBuffer>;
}

export interface ConsoleFiles {
  /** The document of every page. */
  readonly page: ConsoleFile;
  /** By path. */
  readonly assets: ReadonlyMap<string, ConsoleFile>;
}

export async function consoleFiles(bundled: readonly BundledFile[]): Promise<ConsoleFiles> {
  const paths = new Map(bundled.map(({ name, text }) => [name, `${consoleAssets}${hashedName(name, text)}`]));
  const assets = await Promise.all(
    bundled.map(async ({ name, text }) => [paths.get(name) ?? "", await fileOf(text, types[name], true)] as const),
  );
  return { page: await fileOf(documentOf(paths), "text/html; charset=utf-8", false), assets: new Map(assets) };
}

const types: Readonly<Record<BundledFile["name"], string>> = {
  "app.js": "text/javascript; charset=utf-8",
  "app.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
};

function hashedName(name: string, text: string): string {
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}-${hashOf(text)}${name.slice(dot)}`;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

async function fileOf(text: string, type: string, isImmutable: boolean): Promise<ConsoleFile> {
  const plain = new TextEncoder().encode(text);
  const [gzipped, brotli] = await Promise.all([compressGzip(plain, { level: 9 }), compressBrotli(plain)]);
  return { type, etag: `"${hashOf(text)}"`, isImmutable, plain, gzip: new Uint8Array(gzipped), brotli: new Uint8Array(brotli) };
}

const compressGzip = promisify<Uint8Array, { readonly level: number }, Buffer>(gzip);
const compressBrotli = promisify<Uint8Array, Buffer>(brotliCompress);

/** The content policy allows neither inline scripts nor inline styles, so that the document has none. */
function documentOf(paths: ReadonlyMap<string, string>): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Sluice</title>
<link rel="icon" type="image/svg+xml" href="${paths.get("icon.svg") ?? ""}">
<link rel="stylesheet" href="${paths.get("app.css") ?? ""}">
<script type="module" src="${paths.get("app.js") ?? ""}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The console needs JavaScript. The admin API and the command line can do the same without it.</noscript>
</body>
</html>
`;
}
