/** The id of a request: the caller's own where it is harmless, else a new one. */
export function requestIdOf(given: string | null): string {
  if (given !== null && /^[\w.-]{1,64}$/.test(given)) return given;
  return `req_${crypto.randomUUID().replaceAll("-", "")}`;
}
