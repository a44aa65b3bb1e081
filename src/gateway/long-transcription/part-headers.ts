import type { Call } from "../call.ts";

/** A client's headers as a part of its call has them. Parts are requests of their own: none may be taken for another one sent again. */
export function partHeaders({ headers }: Call, index: number): Call["headers"] {
  return {
    header: (name) => {
      const value = headers.header(name);
      return value !== null && name.toLowerCase() === "idempotency-key" ? `${value}-${index}` : value;
    },
  };
}
