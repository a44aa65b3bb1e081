/**
 * The session's cookie. Behind TLS it bears the prefix by which browsers refuse to take it from anybody else or send it in the clear.
 * That prefix needs `Secure`, which not every browser grants to plain HTTP on the loopback, so there it goes without. Scripts never
 * see it, and no request that another site began carries it.
 */
export interface SessionCookie {
  /** The one session a request names; null when there is none, or two that contradict each other. */
  read(header: string | null): string | null;
  set(value: string, lifeMs: number): string;
  clear(): string;
}

export function makeSessionCookie(secure: boolean): SessionCookie {
  const name = secure ? "__Host-sluice_session" : "sluice_session";
  const attributes = `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return {
    read: (header) => {
      const values = new Set<string>();
      for (const pair of (header ?? "").split(";")) {
        const equals = pair.indexOf("=");
        if (equals > 0 && pair.slice(0, equals).trim() === name) values.add(pair.slice(equals + 1).trim());
      }
      const [value = ""] = values;
      return values.size === 1 && wellFormed.test(value) ? value : null;
    },
    set: (value, lifeMs) => `${name}=${value}; Max-Age=${Math.floor(lifeMs / 1000)}; ${attributes}`,
    clear: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}

/** 32 bytes in base64 for URLs; nothing else is worth a look into the store. */
const wellFormed = /^[\w-]{43}$/;
