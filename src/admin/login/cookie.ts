/**
 * The session cookie. Behind TLS it has the prefix `__Host-`, with which browsers accept it only from this host and send it only over
 * TLS. The prefix needs `Secure`, which not every browser accepts on plain HTTP to loopback, so there it is left out. Scripts cannot
 * read the cookie (`HttpOnly`), and requests from other sites do not carry it (`SameSite=Strict`).
 */
export interface SessionCookie {
  /** The session of a request; null if there is none, or two different ones. */
  read(header: string | null): string | null;
  set(value: string, lifeMs: number): string;
  clear(): string;
}

export function makeSessionCookie(secure: boolean): SessionCookie {
  const name = secure ? "__Host-sluice_session" : "sluice_session";
  const attributes = `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return {
    read: (header) => {
      const value = cookieValue(header, name);
      return value !== null && wellFormed.test(value) ? value : null;
    },
    set: (value, lifeMs) => `${name}=${value}; Max-Age=${Math.floor(lifeMs / 1000)}; ${attributes}`,
    clear: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}

/** Null if there is no such cookie, or two different ones. */
export function cookieValue(header: string | null, name: string): string | null {
  const values = new Set<string>();
  for (const pair of (header ?? "").split(";")) {
    const equals = pair.indexOf("=");
    if (equals > 0 && pair.slice(0, equals).trim() === name) values.add(pair.slice(equals + 1).trim());
  }
  const [value = null] = values;
  return values.size === 1 ? value : null;
}

/** 32 bytes in base64url. Nothing else is looked up in the store. */
const wellFormed = /^[\w-]{43}$/;
