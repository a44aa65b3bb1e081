import type { CitedPage } from "../../operations/conversation/answer-parts.ts";
import { textOf } from "../untrusted.ts";

/** A page that an upstream names; null where it has no address that a client could open. */
export function citedPage(url: unknown, title: unknown, start: number, end: number): CitedPage | null {
  const address = textOf(url);
  if (address.length > urlMax || !/^https?:\/\//i.test(address) || !(start >= 0) || end < start) return null;
  return { url: address, title: textOf(title).slice(0, titleMax), start, end };
}

const urlMax = 8192;
const titleMax = 1000;
/** More pages than any answer names. */
export const pagesMax = 1024;
