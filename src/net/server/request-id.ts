/** The id that a caller gave its request, where it is harmless; null where another has to be made. */
export function givenRequestId(given: string | null): string | null {
  return given !== null && harmless.test(given) ? given : null;
}

const harmless = /^[\w.-]{1,64}$/;
