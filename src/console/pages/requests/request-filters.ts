/** The filters as the admin API takes them. A status is not asked for while it is typed. */
export function askedOf({ min_seconds: seconds = "", status = "", ...rest }: RequestFilters): RequestFilters {
  const took = seconds === "" ? Number.NaN : Math.round(Number(seconds) * 1000);
  return { ...rest, status: status.length < 3 ? "" : status.toLowerCase(), min_took_ms: Number.isFinite(took) ? String(took) : "" };
}

export type RequestFilters = Readonly<Record<string, string>>;
