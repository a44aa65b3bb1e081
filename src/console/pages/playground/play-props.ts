/** What each kind of trial needs. */
export interface PlayProps {
  readonly clientKey: string;
  readonly models: readonly string[];
  /** Where clients connect. */
  readonly address: string;
}
