import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ConsolePage } from "../../admin/console/pages.ts";
import { ask, hintSession, signedIn, type SignedIn } from "../core/api.ts";
import { go, pathTo, place } from "../core/location.ts";
import { isInNavigation } from "../core/pages-of-role.ts";
import { pageKeys, readShortcut } from "../core/shortcuts.ts";
import { setTheme, theme, themes, type Theme } from "../core/theme.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Logo } from "./logo.tsx";

/** What the navigation shows, in two groups: what happens, and what is set. */
const groups: readonly (readonly (readonly [page: ConsolePage, text: string])[])[] = [
  [
    ["overview", "Overview"],
    ["live", "Live"],
    ["requests", "Requests"],
    ["usage", "Usage"],
    ["outcomes", "Outcomes"],
  ],
  [
    ["channels", "Channels"],
    ["keys", "Keys"],
    ["groups", "Groups"],
    ["history", "History"],
    ["setup", "Set up a client"],
    ["playground", "Playground"],
    ["lab", "Fault lab"],
    ["settings", "Settings"],
  ],
];

const navigation = "navigation";

export function Shell({ who, children }: { readonly who: SignedIn; readonly children: ComponentChildren }) {
  const helps = useSignal(false);
  const side = useRef<HTMLDivElement>(null);
  useShortcuts(() => (helps.value = true));
  const { path } = place.value;
  useEffect(() => {
    if (side.current?.matches(":popover-open") === true) side.current.hidePopover();
  }, [path]);
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <div class="top">
        <a class="brand" href={pathTo("overview")}>
          <Logo /> Sluice
        </a>
        <button type="button" class="button small" popovertarget={navigation}>
          Menu
        </button>
      </div>
      <div class="side" id={navigation} popover="auto" ref={side}>
        <a class="brand" href={pathTo("overview")}>
          <Logo /> Sluice
        </a>
        <nav aria-label="Pages">
          {groups.map((pages) => (
            <ul key={pages[0]?.[0]}>
              {pages
                .filter(([page]) => isInNavigation(who.role, page))
                .map(([page, text]) => (
                  <li key={page}>
                    <a href={pathTo(page)} aria-current={isCurrent(page, path) ? "page" : undefined}>
                      {text}
                    </a>
                  </li>
                ))}
            </ul>
          ))}
        </nav>
        <div class="who">
          <Themes />
          <span>
            <strong>{who.name}</strong> <span class="muted">{who.role.replace("_", " ")}</span>
          </span>
          <div class="row">
            <button type="button" class="button small" onClick={() => void signOut()}>
              Sign out
            </button>
            <button type="button" class="button small quiet" onClick={() => (helps.value = true)} aria-label="Keyboard shortcuts">
              <span class="kbd">?</span>
            </button>
          </div>
        </div>
      </div>
      <main id="content" tabIndex={-1}>
        {children}
      </main>
      {helps.value && <Shortcuts onClose={() => (helps.value = false)} />}
    </div>
  );
}

function isCurrent(page: ConsolePage, path: string): boolean {
  const own = pathTo(page);
  return page === "overview" ? path === own : path === own || path.startsWith(`${own}/`);
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

async function signOut(): Promise<void> {
  const left = await ask<{ readonly end_session_url: string | null }>("/logout", { method: "POST" }).catch(() => null);
  hintSession(false);
  signedIn.value = null;
  // Else the next sign-in with the provider would ask for nothing.
  if (left?.end_session_url != null) location.assign(left.end_session_url);
}

const themeNames: Readonly<Record<Theme, string>> = { auto: "Auto", light: "Light", dark: "Dark" };

function Themes() {
  return (
    <div class="tabs" role="group" aria-label="Colours">
      {themes.map((name) => (
        <button type="button" key={name} aria-pressed={theme.value === name} onClick={() => setTheme(name)}>
          {themeNames[name]}
        </button>
      ))}
    </div>
  );
}

function useShortcuts(help: () => void): void {
  useEffect(() => {
    let waitingSinceMs: number | null = null;
    const press = (event: KeyboardEvent): void => {
      const isTyping =
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        (event.target instanceof Element && event.target.closest("input, textarea, select, dialog") !== null);
      const read = readShortcut(waitingSinceMs, { key: event.key, atMs: event.timeStamp, isTyping });
      ({ waitingSinceMs } = read);
      if (read.act === null) return;
      event.preventDefault();
      if (read.act.kind === "go") go(pathTo(read.act.page));
      else if (read.act.kind === "help") help();
      else document.querySelector<HTMLElement>("main input[type=search]")?.focus();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function Shortcuts({ onClose }: { readonly onClose: () => void }) {
  const names = new Map(groups.flat());
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="facts">
        {Object.entries(pageKeys).map(([key, page]) => (
          <div key={key}>
            <dt>
              <span class="kbd">g</span> <span class="kbd">{key}</span>
            </dt>
            <dd>{names.get(page)}</dd>
          </div>
        ))}
        <div>
          <dt>
            <span class="kbd">/</span>
          </dt>
          <dd>Search on this page</dd>
        </div>
      </dl>
      <footer>
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </footer>
    </Dialog>
  );
}
