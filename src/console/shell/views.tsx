import type { ComponentType } from "preact";
import type { ConsolePage } from "../../admin/console/pages.ts";
import { pathTo, place } from "../core/location.ts";
import { EmptyState } from "../parts/notice.tsx";
import { Page } from "../parts/page.tsx";

/** The view of each page. */
const views: Partial<Record<ConsolePage, ComponentType>> = {};

export function CurrentView() {
  const { page } = place.value;
  const View = page === null ? undefined : views[page];
  return View === undefined ? <NoSuchPage /> : <View />;
}

function NoSuchPage() {
  return (
    <Page title="There is no such page">
      <EmptyState title="Nothing is here">
        <p>
          The address may be old. <a href={pathTo("overview")}>Go to the overview.</a>
        </p>
      </EmptyState>
    </Page>
  );
}
