import { signal } from "@preact/signals";
import { consolePages, type ConsolePage } from "../../admin/console/pages.ts";
import { matchPath } from "../../admin/router.ts";

/** Where the browser is: the page of the path, its parameters, and the query. */
export interface PagePlace {
  readonly page: ConsolePage | null;
  readonly params: Readonly<Record<string, string>>;
  readonly path: string;
  readonly query: URLSearchParams;
}

export function placeOf(path: string, search: string): PagePlace {
  const segments = path.split("/");
  const query = new URLSearchParams(search);
  // A literal path goes before one with parameters, as in the router of the listener.
  const patterns = Object.entries(consolePages).toSorted(([, one], [, other]) => Number(one.includes("{")) - Number(other.includes("{")));
  for (const [page, pattern] of patterns) {
    const params = matchPath(pattern.split("/"), segments);
    if (params !== null) return { page: page as ConsolePage, params, path, query };
  }
  return { page: null, params: {}, path, query };
}

/** The address of a page. */
export function pathTo(
  page: ConsolePage,
  params: Readonly<Record<string, string>> = {},
  query: Readonly<Record<string, string>> = {},
): string {
  const path = consolePages[page].replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return search === "" ? path : `${path}?${search}`;
}

export const place = signal<PagePlace>(placeOf("", ""));

export function followLocation(): void {
  const read = (): void => {
    place.value = placeOf(window.location.pathname, window.location.search);
  };
  read();
  window.addEventListener("popstate", read);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || !isPlainClick(event, link)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** Other clicks are the browser's: a new tab, a download, another site. */
function isPlainClick(event: MouseEvent, link: HTMLAnchorElement): boolean {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return false;
  if (link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) return false;
  return placeOf(link.pathname, "").page !== null;
}

export function go(path: string): void {
  if (path === window.location.pathname + window.location.search) return;
  window.history.pushState(null, "", path);
  place.value = placeOf(window.location.pathname, window.location.search);
  window.scrollTo(0, 0);
}

/** Changes parameters of the query in place: the way back leads to the page before, not through each filter. An empty value removes one. */
export function setQuery(changes: Readonly<Record<string, string>>): void {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const search = query.toString();
  window.history.replaceState(null, "", window.location.pathname + (search === "" ? "" : `?${search}`));
  place.value = placeOf(window.location.pathname, window.location.search);
}
