import type { Failure } from "../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../operations/json.ts";
import { missing, mistake, wrongType } from "../operations/mistakes.ts";

/**
 * Reads the values of a parsed body, and keeps the first mistake in it. A value that is wrong is read as an empty one, so that the code
 * that reads goes straight on; whoever uses the outcome asks for the mistake first. A path names a field as the API's own errors do:
 * `messages.1.content.0.source`.
 */
export class FieldReader {
  mistake: Failure | null = null;

  fail(found: Failure): void {
    this.mistake ??= found;
  }

  invalid(path: string, message: string): void {
    this.fail(mistake(message, "invalid_value", path));
  }

  object(value: unknown, path: string): JsonObject {
    if (isJsonObject(value)) return value;
    this.fail(value == null ? missing(path) : wrongType(path, "an object"));
    return nothing;
  }

  list(value: unknown, path: string): readonly unknown[] {
    if (Array.isArray(value)) return value as readonly unknown[];
    this.fail(value == null ? missing(path) : wrongType(path, "an array"));
    return [];
  }

  text(value: unknown, path: string): string {
    if (typeof value === "string") return value;
    this.fail(value == null ? missing(path) : wrongType(path, "a string"));
    return "";
  }

  /** A text that says something. */
  name(value: unknown, path: string): string {
    const text = this.text(value, path);
    if (text === "") this.invalid(path, `'${path}' must not be empty.`);
    return text;
  }

  optionalObject(value: unknown, path: string): JsonObject | null {
    return value == null ? null : this.object(value, path);
  }

  optionalList(value: unknown, path: string): readonly unknown[] {
    return value == null ? [] : this.list(value, path);
  }

  optionalText(value: unknown, path: string): string | null {
    return value == null ? null : this.text(value, path);
  }

  optionalNumber(value: unknown, path: string): number | null {
    if (value == null) return null;
    // A number too large for a double is parsed as infinite.
    if (typeof value === "number" && Number.isFinite(value)) return value;
    this.fail(wrongType(path, "a number"));
    return null;
  }

  optionalBoolean(value: unknown, path: string): boolean | null {
    if (value == null) return null;
    if (typeof value === "boolean") return value;
    this.fail(wrongType(path, "a boolean"));
    return null;
  }

  /** One of a few words. */
  optionalChoice<Word extends string>(value: unknown, words: readonly Word[], path: string): Word | null {
    const text = this.optionalText(value, path);
    if (text === null) return null;
    const found = words.find((word) => word === text);
    if (found === undefined) this.invalid(path, `'${path}' must be one of: ${words.join(", ")}.`);
    return found ?? null;
  }
}

const nothing: JsonObject = {};
