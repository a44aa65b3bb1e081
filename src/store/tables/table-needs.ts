import type { ChannelSecrets } from "../secrets/channel-secrets.ts";

/** What the tables need of the world around them. */
export interface TableNeeds {
  readonly wallMs: () => number;
  /** Ids that sort by the time they were made at, such as UUIDv7. */
  readonly newId: () => string;
  /** Seals what channels send along; without it that is kept as it is given. */
  readonly channelSecrets?: ChannelSecrets;
  /** Is told of rows that cannot be read and were left out of a list. */
  readonly damaged?: (row: DamagedRow) => void;
}

export interface DamagedRow {
  readonly table: "keys" | "channels" | "prices" | "audit" | "accounts" | "admin_tokens";
  readonly id: string;
  /** The column that makes no sense. */
  readonly column: string;
}
