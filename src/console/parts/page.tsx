import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { pathTo } from "../core/location.ts";

/** A page: its title, which gets the focus when the page is opened, its actions and its content. */
export function Page({ title, about, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Sluice`;
    heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <div class="page">
      <header>
        <div>
          <h1 tabIndex={-1} ref={heading}>
            {title}
          </h1>
          {about !== undefined && <p>{about}</p>}
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

/** From a key or a group to its requests and its usage, and back to the list. */
export function LinksOf({ kind, id }: { readonly kind: "key" | "group"; readonly id: string }) {
  return (
    <>
      <a class="button small" href={pathTo("requests", {}, { [kind]: id })}>
        Its requests
      </a>
      <a class="button small" href={pathTo("usage", {}, { [kind]: id })}>
        Its usage
      </a>
      <a class="button small" href={pathTo("history", {}, { subject: id })}>
        Its history
      </a>
      <a class="button small" href={pathTo(`${kind}s`)}>
        All {kind}s
      </a>
    </>
  );
}

interface PageProps {
  readonly title: string;
  readonly about?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}
