import { searchFor, type SearchEntry, type SearchHit } from "../search.ts";

/** Shows what is found while it is typed. The sections of all pages stand in the page itself, so that it works without a server. */
const entries = JSON.parse(document.getElementById("entries")?.textContent ?? "[]") as readonly SearchEntry[];
const input = document.querySelector<HTMLInputElement>("input[type=search]");
const list = document.getElementById("hits");
const count = document.getElementById("count");

function show(): void {
  const query = input?.value ?? "";
  const hits = searchFor(query, entries);
  list?.replaceChildren(...hits.map(item));
  if (count !== null) count.textContent = query.trim() === "" ? "" : counted(hits.length);
}

function counted(number: number): string {
  if (number === 0) return "Nothing was found.";
  return number === 1 ? "1 section" : `${number} sections`;
}

function item({ entry, excerpt }: SearchHit): HTMLLIElement {
  const link = document.createElement("a");
  link.href = entry.address;
  link.textContent = entry.section === "" ? entry.page : `${entry.page}: ${entry.section}`;
  const text = document.createElement("p");
  text.textContent = excerpt;
  const element = document.createElement("li");
  element.append(link, text);
  return element;
}

if (input !== null) {
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", show);
  input.focus();
}
show();
