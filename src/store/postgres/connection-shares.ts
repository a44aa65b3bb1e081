/** How the connections of one process to PostgreSQL are divided. */
export interface ConnectionShares {
  readonly calls: number;
  /** For queries of the admin API, which may take long. */
  readonly reports: number;
  /** For receipts: they are written one batch after the other. */
  readonly receipts: number;
}

export function connectionShares(connections: number): ConnectionShares {
  const receipts = 1;
  const reports = Math.max(1, Math.floor(connections / 4));
  return { calls: Math.max(1, connections - reports - receipts), reports, receipts };
}
