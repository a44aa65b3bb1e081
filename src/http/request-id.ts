/** The id of a request: the caller's own where it is harmless, else the one made for it. */
export function requestIdOf(given: string | null, made: string): string {
  return given !== null && harmless.test(given) ? given : made;
}

const harmless = /^[\w.-]{1,64}$/;
