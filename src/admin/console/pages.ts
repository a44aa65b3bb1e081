/** The pages of the console. The browser finds its view in the same list, so that the listener answers no path that has none. */
export const consolePages = {
  overview: "/console",
  live: "/console/live",
  requests: "/console/requests",
  request: "/console/requests/{id}",
  channels: "/console/channels",
  channel: "/console/channels/{name}",
  keys: "/console/keys",
  key: "/console/keys/{id}",
  groups: "/console/groups",
  group: "/console/groups/{id}",
  usage: "/console/usage",
  outcomes: "/console/outcomes",
  setup: "/console/setup",
  playground: "/console/playground",
  lab: "/console/lab",
  settings: "/console/settings",
  history: "/console/settings/history",
  audit: "/console/settings/audit",
  prices: "/console/settings/prices",
  accounts: "/console/settings/accounts",
  webhooks: "/console/settings/webhooks",
  backup: "/console/settings/backup",
} as const;

export type ConsolePage = keyof typeof consolePages;

/** Where the files are that pages load. Their names contain the hash of their content. */
export const consoleAssets = "/console/assets/";
