import type { Failure } from "../../operations/failure.ts";
import { readHeaderValue } from "./header-value.ts";
import { badBoundary, notForm } from "./form-errors.ts";

/** What separates the parts of the form that a content type announces. */
export function boundaryOf(contentType: string | null): string | Failure {
  if (contentType === null || !/^\s*multipart\/form-data\s*(;|$)/i.test(contentType)) return notForm;
  const boundary = readHeaderValue(contentType)?.parameters.get("boundary");
  // RFC 2046 allows 70 characters and fewer signs, but some clients know no bounds. None may end with a space.
  return boundary !== undefined && /^[\x20-\x7e]{0,199}[\x21-\x7e]$/.test(boundary) ? boundary : badBoundary;
}
