import { AdminError } from "../admin-error.ts";
import { errorResponse } from "../respond.ts";
import { matchPath } from "../router.ts";
import type { BundledFile } from "./bundle.ts";
import { consoleFiles, type ConsoleFile, type ConsoleFiles } from "./console-files.ts";
import { consoleAssets, consolePages } from "./pages.ts";

/** Answers for the pages and files of the console; null for every other path. */
export type ConsoleServer = (request: Request, path: string, headers: Headers) => Promise<Response> | null;

/**
 * The pages and files contain nothing that is secret, so that anybody who reaches the listener may load them: what they show comes from
 * the admin API, which needs a login. They are bundled when the first page is opened.
 */
export function makeConsoleServer(bundle: () => Promise<readonly BundledFile[]>, onBug: (error: unknown) => void): ConsoleServer {
  let loading: Promise<ConsoleFiles> | null = null;
  const load = (): Promise<ConsoleFiles> => {
    loading ??= bundle().then(consoleFiles);
    return loading;
  };
  return (request, path, headers) => {
    if (!isConsolePath(path)) return null;
    return answer(request, path, headers, load).catch((error: unknown) => {
      loading = null;
      onBug(error);
      return errorResponse(notBuilt, headers);
    });
  };
}

const pagePatterns = Object.values(consolePages).map((pattern) => pattern.split("/"));

/** The way in, a page or a file. */
function isConsolePath(path: string): boolean {
  if (path === "/" || path.startsWith(consoleAssets)) return true;
  const segments = path.split("/");
  return pagePatterns.some((pattern) => matchPath(pattern, segments) !== null);
}

async function answer(request: Request, path: string, headers: Headers, load: () => Promise<ConsoleFiles>): Promise<Response> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    headers.set("allow", "GET, HEAD");
    return errorResponse(onlyRead, headers);
  }
  if (path === "/") {
    headers.set("location", consolePages.overview);
    return new Response(null, { status: 302, headers });
  }
  const { page, assets } = await load();
  const file = path.startsWith(consoleAssets) ? assets.get(path) : page;
  return file === undefined ? errorResponse(noSuchFile, headers) : sent(file, request, headers);
}

function sent(file: ConsoleFile, request: Request, headers: Headers): Response {
  headers.set("cache-control", file.isImmutable ? "public, max-age=31536000, immutable" : "no-cache");
  headers.set("vary", "accept-encoding");
  headers.set("etag", file.etag);
  if (request.headers.get("if-none-match") === file.etag) return new Response(null, { status: 304, headers });
  headers.set("content-type", file.type);
  const encoding = encodingFor(request.headers.get("accept-encoding") ?? "");
  if (encoding !== null) headers.set("content-encoding", encoding === "brotli" ? "br" : encoding);
  return new Response(request.method === "HEAD" ? null : file[encoding ?? "plain"], { headers });
}

/** Browsers send plain lists; an encoding with a weight, which may be zero, is not used. */
function encodingFor(accepted: string): "brotli" | "gzip" | null {
  const names = accepted.split(",").map((name) => name.trim().toLowerCase());
  return names.includes("br") ? "brotli" : names.includes("gzip") ? "gzip" : null;
}

const onlyRead = new AdminError(405, "method_not_allowed", "The console is read with GET. Changes are made through the admin API.");
const noSuchFile = new AdminError(
  404,
  "unknown_route",
  "There is no such file: load the page again, because the gateway has another version.",
);
const notBuilt = new AdminError(
  500,
  "internal_error",
  "The console could not be built: run `npm install` again. The gateway's log has the details.",
);
