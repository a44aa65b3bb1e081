import type { Method, AdminRoute } from "./route.ts";

export type RouteMatch =
  | { readonly kind: "route"; readonly route: AdminRoute; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: "method"; readonly allow: string }
  | { readonly kind: "none" };

/** Finds the route of a path exactly as it was sent. Segments are decoded after the path is split, so `%2F` is not a separator. */
export class Router {
  private readonly paths: readonly PathRoutes[];

  constructor(routes: readonly AdminRoute[]) {
    const paths = new Map<string, { readonly segments: readonly string[]; readonly routes: Map<Method, AdminRoute> }>();
    for (const route of routes) {
      const entry = paths.get(route.path) ?? { segments: route.path.split("/"), routes: new Map<Method, AdminRoute>() };
      if (entry.routes.has(route.method)) throw new Error(`two routes have the method and path ${route.method} ${route.path}`);
      entry.routes.set(route.method, route);
      paths.set(route.path, entry);
    }
    // A literal path goes before one with parameters.
    this.paths = [...paths.values()].toSorted((one, other) => named(one.segments) - named(other.segments));
  }

  find(method: string, path: string): RouteMatch {
    const segments = path.split("/");
    for (const entry of this.paths) {
      const params = matchPath(entry.segments, segments);
      if (params === null) continue;
      const route = entry.routes.get((method === "HEAD" ? "GET" : method) as Method);
      return route === undefined ? { kind: "method", allow: allowed(entry.routes) } : { kind: "route", route, params };
    }
    return { kind: "none" };
  }
}

interface PathRoutes {
  readonly segments: readonly string[];
  readonly routes: ReadonlyMap<Method, AdminRoute>;
}

/** The path and query of a request's URL, which may be absolute or relative. */
export function targetOf(url: string): { readonly path: string; readonly query: string } {
  const authority = url.indexOf("://");
  const from = authority < 0 ? 0 : url.indexOf("/", authority + 3);
  const whole = url.slice(from).split("#", 1)[0] ?? "";
  const question = whole.indexOf("?");
  return question < 0 ? { path: whole, query: "" } : { path: whole.slice(0, question), query: whole.slice(question + 1) };
}

/** The values of the segments in braces; null if the path has another form. */
export function matchPath(pattern: readonly string[], segments: readonly string[]): Readonly<Record<string, string>> | null {
  if (pattern.length !== segments.length) return null;
  const params: Record<string, string> = {};
  for (const [at, wanted] of pattern.entries()) {
    const given = segments[at] ?? "";
    if (!isName(wanted)) {
      if (wanted !== given) return null;
      continue;
    }
    const value = decoded(given);
    if (value === null || value === "" || value.length > paramCharactersMax) return null;
    params[wanted.slice(1, -1)] = value;
  }
  return params;
}

const paramCharactersMax = 512;

function isName(segment: string): boolean {
  return segment.startsWith("{") && segment.endsWith("}");
}

function named(segments: readonly string[]): number {
  return segments.filter(isName).length;
}

function decoded(text: string): string | null {
  try {
    const value = decodeURIComponent(text);
    return value.includes("\0") ? null : value;
  } catch {
    return null;
  }
}

function allowed(routes: ReadonlyMap<Method, AdminRoute>): string {
  const methods: string[] = [...routes.keys()];
  return (routes.has("GET") ? [...methods, "HEAD"] : methods).toSorted().join(", ");
}
