import type { ComponentType } from "preact";
import type { ConsolePage } from "../../admin/console/pages.ts";
import { roleNow } from "../core/api.ts";
import { pathTo, place } from "../core/location.ts";
import { isPageFor } from "../core/pages-of-role.ts";
import { EmptyState } from "../parts/notice.tsx";
import { Page } from "../parts/page.tsx";
import { ChannelPage } from "../pages/channels/channel.tsx";
import { ChannelsPage } from "../pages/channels/channels.tsx";
import { GroupPage } from "../pages/groups/group.tsx";
import { GroupsPage } from "../pages/groups/groups.tsx";
import { KeyPage } from "../pages/keys/key.tsx";
import { KeysPage } from "../pages/keys/keys.tsx";
import { LabPage } from "../pages/lab/lab.tsx";
import { LivePage } from "../pages/live/live.tsx";
import { OutcomesPage } from "../pages/outcomes/outcomes.tsx";
import { OverviewPage } from "../pages/overview/overview.tsx";
import { PlaygroundPage } from "../pages/playground/playground.tsx";
import { RequestPage } from "../pages/requests/request.tsx";
import { RequestsPage } from "../pages/requests/requests.tsx";
import { AccountsPage } from "../pages/settings/accounts.tsx";
import { AuditPage } from "../pages/settings/audit.tsx";
import { BackupPage } from "../pages/settings/backup.tsx";
import { HistoryPage } from "../pages/settings/history.tsx";
import { PricesPage } from "../pages/settings/prices.tsx";
import { SettingsPage } from "../pages/settings/settings.tsx";
import { WebhooksPage } from "../pages/settings/webhooks.tsx";
import { SetupPage } from "../pages/setup/setup.tsx";
import { UsagePage } from "../pages/usage/usage.tsx";

/** The view of each page. */
const views: Readonly<Record<ConsolePage, ComponentType>> = {
  overview: OverviewPage,
  live: LivePage,
  requests: RequestsPage,
  request: RequestPage,
  channels: ChannelsPage,
  channel: ChannelPage,
  keys: KeysPage,
  key: KeyPage,
  groups: GroupsPage,
  group: GroupPage,
  usage: UsagePage,
  outcomes: OutcomesPage,
  setup: SetupPage,
  playground: PlaygroundPage,
  lab: LabPage,
  settings: SettingsPage,
  history: HistoryPage,
  audit: AuditPage,
  prices: PricesPage,
  accounts: AccountsPage,
  webhooks: WebhooksPage,
  backup: BackupPage,
};

export function CurrentView() {
  const { page } = place.value;
  const View = page === null ? NoSuchPage : isPageFor(roleNow(), page) ? views[page] : NotYours;
  return <View key={page} />;
}

function NotYours() {
  return (
    <Page title="Your group">
      <EmptyState title="This page is about the whole gateway">
        <p>You manage a group: see its keys, its requests and what it used.</p>
        <a class="button main" href={pathTo("keys")}>
          Keys
        </a>
      </EmptyState>
    </Page>
  );
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
