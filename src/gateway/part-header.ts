import type { Call } from "./call.ts";

/** A client's header as a part of its call has it. Parts are requests of their own: none may be taken for another one sent again. */
export function partHeader({ header }: Call, name: string, index: number): string | null {
  const value = header(name);
  return value !== null && name.toLowerCase() === "idempotency-key" ? `${value}-${index}` : value;
}
