import { operations, type Operation } from "../operations/operation.ts";
import { networkPrefix } from "../limits/network-prefix.ts";
import { nanosOf } from "../usage/dollars.ts";
import { checkAddress, type AddressUse } from "./address.ts";
import { isLoopback, parseListen, parseListenOrSocket, portBehind, portMax, type Listen } from "./listen.ts";
import { nearest } from "./findings/nearest.ts";
import { durationText, parseDuration, parseSize } from "./quantity.ts";
import { subject } from "./findings/shown-value.ts";
import { anyOf, orVariable, pattern, type SchemaFragment } from "./json-schema/fragment.ts";

/** A type of setting: its name in the documentation, and how a value is parsed. Values that may be secrets are never quoted. */
export interface Kind<T> {
  readonly type: string;
  /** What an editor can check of a value. It accepts all that `read` accepts. */
  readonly json: SchemaFragment;
  /** What must not be shown: all of it, or of an address a password or the path. */
  readonly secrecy?: "whole" | "password" | "path";
  readonly read: (value: unknown) => T | InvalidValue;
}

/** Why a value is not valid, and how to fix it. */
export class InvalidValue {
  constructor(
    readonly reason: string,
    readonly fix: string,
    /** The path to the invalid part, inside a list or a map. */
    readonly path: readonly (string | number)[] = [],
  ) {}
}

/** The models of a channel, by the names that clients use. */
export type ModelsSetting =
  | { readonly kind: "map"; readonly names: ReadonlyMap<string, string> }
  | { readonly kind: "any" }
  /** `listedPrefix` is a prefix of the names in the upstream's list, which clients leave out. */
  | { readonly kind: "discovered"; readonly listedPrefix?: string };

/** Numbers and booleans may be given as text, because variables are always text. */
export function integer(min: number, max: number): Kind<number> {
  const fix = `write a whole number from ${min} to ${max}`;
  return {
    type: "whole number",
    json: anyOf({ type: "integer", minimum: min, maximum: max }, pattern(/^\d{1,15}$/)),
    read: (value) => {
      const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
      if (typeof number !== "number" || !Number.isInteger(number)) return notA("a whole number", value, fix, subject(value));
      return number < min || number > max ? new InvalidValue(`${number} is out of range`, fix) : number;
    },
  };
}

export function positiveNumber(max: number): Kind<number> {
  const fix = `write a number above 0 and at most ${max}`;
  return {
    type: "number",
    json: anyOf({ type: "number", exclusiveMinimum: 0, maximum: max }, pattern(/^\d{1,15}(\.\d{1,6})?$/)),
    read: (value) => {
      const number = typeof value === "string" && /^\d{1,15}(\.\d{1,6})?$/.test(value) ? Number(value) : value;
      if (typeof number !== "number") return notA("a number", value, fix, subject(value));
      return number > 0 && number <= max ? number : new InvalidValue(`${number} is out of range`, fix);
    },
  };
}

/** An amount of US dollars, parsed exactly into billionths of a dollar. */
export function dollars(nanosMax: number): Kind<number> {
  const fix = `write a number of dollars, such as 0.15, of at most ${nanosMax / 1e9}`;
  return {
    type: "US dollars",
    json: anyOf({ type: "number", minimum: 0, maximum: nanosMax / 1e9 }, pattern(/^\s*(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?\s*$/)),
    read: (value) => {
      if (typeof value !== "number" && typeof value !== "string") return notA("an amount of dollars", value, fix, subject(value));
      const nanos = nanosOf(value);
      if (nanos === null) return notA("an amount of dollars", value, fix, subject(value));
      return nanos <= nanosMax ? nanos : new InvalidValue(`${subject(value)} is out of range`, fix);
    },
  };
}

export function flag(): Kind<boolean> {
  return {
    type: "true or false",
    json: anyOf({ type: "boolean" }, { enum: ["true", "false"] }),
    read: (value) => {
      if (value === true || value === "true") return true;
      return value === false || value === "false" ? false : notA("true or false", value, "write true or false", subject(value));
    },
  };
}

export function choice<const T extends string>(values: readonly T[]): Kind<T> {
  const list = values.join(", ");
  return {
    type: values.length > 6 ? "one of the names below" : values.map((value) => `\`${value}\``).join(" or "),
    json: { enum: [...values] },
    read: (value) => {
      const found = values.find((candidate) => candidate === value);
      if (found !== undefined) return found;
      if (typeof value !== "string") return notA("a name", value, `write one of ${list}`, subject(value));
      const near = nearest(value, values);
      return new InvalidValue(
        `${subject(value)} is not a known name`,
        near === null ? `write one of ${list}` : `did you mean ${near}? The choices are ${list}`,
      );
    },
  };
}

const nameFix = "give it a name: up to 64 letters, digits, dots, dashes and underscores";
const textFix = "write text; put it in quotes if it looks like a number";

export function text(charactersMax = 256): Kind<string> {
  return {
    type: "text",
    json: { type: "string", minLength: 1, maxLength: charactersMax },
    read: (value) => {
      if (typeof value !== "string") return notA("text", value, textFix);
      if (value === "") return new InvalidValue("this is empty", "give it a value, or remove the line");
      if (value.length > charactersMax) return new InvalidValue(`this is longer than ${charactersMax} characters`, "shorten it");
      return /\p{Cc}/u.test(value) ? new InvalidValue("this contains a control character", "remove line breaks and tabs") : value;
    },
  };
}

/** A name chosen by the operator. It appears in headers, logs and identifiers, so that only plain characters are allowed. */
export function name(): Kind<string> {
  return {
    type: "name",
    json: pattern(namePattern),
    read: (value) => {
      if (typeof value !== "string") return notA("a name", value, nameFix);
      if (namePattern.test(value)) return value;
      return new InvalidValue(`${subject(value)} cannot be a name`, nameFix);
    },
  };
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** The origin of a web page, exactly as browsers send it, because it is compared as a whole. */
export function origin(): Kind<string> {
  const fix = 'write each as in https://app.example.com, without a path or a star, or "*" alone for any';
  return {
    type: "origin",
    json: anyOf({ const: "*" }, { type: "string", pattern: "^[a-z][a-z0-9+.-]*://[^/?#,@*\\\\ ]+$", maxLength: 512 }),
    read: (value) => {
      if (typeof value !== "string") return notA("an origin", value, fix);
      if (value === "*") return value;
      if (value.length > 512 || !/^[a-z][a-z\d+.-]*:\/\/[^\s/?#,@*\\\p{Cc}]+$/u.test(value))
        return new InvalidValue(`${subject(value)} is not an origin`, fix);
      // Browsers write the origins of web servers in one way only. Apps have schemes of their own.
      const canonical = /^https?:/.test(value) ? (URL.canParse(value) ? new URL(value).origin : null) : value;
      if (canonical === value) return value;
      return new InvalidValue(`${subject(value)} is not an origin as browsers send it`, canonical === null ? fix : `write ${canonical}`);
    },
  };
}

/** A part of a host name, such as a region. Characters that could change the host are not allowed. */
export function label(): Kind<string> {
  return {
    type: "name",
    json: pattern(labelPattern),
    read: (value) => {
      if (typeof value !== "string") return notA("a name", value, textFix);
      if (labelPattern.test(value)) return value;
      return new InvalidValue(`${subject(value)} cannot be part of a host name`, "use letters, digits and dashes, as in us-east-1");
    },
  };
}

const labelPattern = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

/** An upstream's API key. It is sent in a header, so that only visible ASCII is allowed. */
export function secret(): Kind<string> {
  return {
    type: "secret text",
    json: { type: "string", minLength: 1, maxLength: 8192 },
    secrecy: "whole",
    read: (value) => {
      if (typeof value !== "string") return notA("text", value, textFix);
      if (value === "") return new InvalidValue("this is empty", "give the key; if it comes from a variable, the variable is empty");
      if (value.length <= 8192 && /^[\x21-\x7e]+$/.test(value)) return value;
      const scheme = /^(bearer|basic|token)\s/i.exec(value)?.[1];
      if (scheme !== undefined)
        return new InvalidValue(`the word ${scheme} is not part of a key`, "give the key alone: the gateway adds the word");
      return new InvalidValue(
        "this cannot be sent in a header: it contains a space, a line break or a character outside ASCII",
        "check that the key was copied whole and alone",
      );
    },
  };
}

const dayMs = 86_400_000;

export function duration(minMs = 1, maxMs = dayMs): Kind<number> {
  const fix = "write a number and a unit (ms, s, m, h), such as 300ms, 5s or 30m";
  return {
    type: "duration",
    json: pattern(/^\d{1,12}(\.\d{1,6})? ?(ms|s|m|h|d)$/),
    read: (value) => {
      const ms = typeof value === "string" ? parseDuration(value) : null;
      if (ms === null) return notA("a duration", value, fix, subject(value));
      if (ms >= minMs && ms <= maxMs) return ms;
      return new InvalidValue(
        `${subject(value)} is out of range`,
        `write a duration from ${durationText(minMs)} to ${durationText(maxMs)}`,
      );
    },
  };
}

export function size(minBytes: number, maxBytes: number): Kind<number> {
  return {
    type: "size",
    json: pattern(/^\d{1,12}(\.\d{1,6})? ?(B|KB|MB|GB|KiB|MiB|GiB)$/),
    read: (value) => {
      const bytes = typeof value === "string" ? parseSize(value) : null;
      if (bytes === null) return notA("a size", value, "write a number and a unit, such as 64MiB or 25MB", subject(value));
      if (bytes >= minBytes && bytes <= maxBytes) return bytes;
      return new InvalidValue(`${subject(value)} is out of range`, `write a size from ${minBytes}B to ${maxBytes}B`);
    },
  };
}

/** `off`, or its YAML equivalent `false`, disables the setting. */
export function orOff<T>(kind: Kind<T>): Kind<T | null> {
  return {
    type: `${kind.type} or \`off\``,
    json: anyOf(kind.json, { enum: ["off", false] }),
    read: (value) => {
      if (value === "off" || value === false) return null;
      const read = kind.read(value);
      return read instanceof InvalidValue ? new InvalidValue(read.reason, `${read.fix}, or off`, read.path) : read;
    },
  };
}

/** `auto` lets the gateway choose. */
export function orAuto<T>(kind: Kind<T>): Kind<T | "auto"> {
  return {
    type: `\`auto\`, ${kind.type}`,
    json: anyOf({ const: "auto" }, kind.json),
    read: (value) => {
      if (value === "auto") return "auto";
      const read = kind.read(value);
      return read instanceof InvalidValue ? new InvalidValue(read.reason, `${read.fix}, or auto`, read.path) : read;
    },
  };
}

export function listenOrSocket(): Kind<Listen> {
  return listen(parseListenOrSocket, "host and port, or `unix:PATH`", ", or unix:/run/sluice.sock with a path of at most 103 bytes");
}

export function listen(parse: (text: string) => Listen | null = parseListen, type = "host and port", more = ""): Kind<Listen> {
  const fix = `write HOST:PORT, as in 127.0.0.1:4400, [::1]:4400 or 0.0.0.0:4400${more}`;
  return {
    type,
    json: { type: "string", pattern: more === "" ? listenPattern : `^unix:/.+|${listenPattern}` },
    read: (value) => {
      const port = typeof value === "string" ? portBehind(value) : null;
      if (port !== null && !(Number(port) <= portMax)) return new InvalidValue(`there is no port ${port.slice(0, 12)}`, portFix);
      if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= portMax) {
        return new InvalidValue(
          `${value} is a port without a host`,
          `write 127.0.0.1:${value}, or 0.0.0.0:${value} for other machines as well`,
        );
      }
      return (typeof value === "string" ? parse(value) : null) ?? notA("a host and a port", value, fix, subject(value));
    },
  };
}

/** The permissions of a file. As a number YAML would read it in one base or the other, so it must be text. */
export function fileMode(): Kind<number> {
  return {
    type: "file mode",
    json: pattern(/^0?[0-7]{3}$/),
    read: (value) =>
      typeof value === "string" && /^0?[0-7]{3}$/.test(value)
        ? parseInt(value, 8)
        : notA("a file mode", value, 'write three digits from 0 to 7 in quotes, as in "660"', subject(value)),
  };
}

const listenPattern = "^(\\[[0-9A-Fa-f:.]{2,45}\\]|[A-Za-z0-9][A-Za-z0-9.-]{0,252}):[0-9]{1,5}$";

const portFix = `write a port from 0 to ${portMax}; 0 lets the system choose`;

/** A network, as the bits that its addresses begin with, or `unix`. */
export function network(): Kind<string> {
  const fix = "write a network, as in 10.0.0.0/8 or fd00::/8, a single address, or unix";
  return {
    type: "network or `unix`",
    json: pattern(/^(unix|[0-9A-Fa-f:.]{2,45}(\/\d{1,3})?)$/),
    read: (value) => {
      if (value === "unix") return value;
      const prefix = typeof value === "string" ? networkPrefix(value) : null;
      if (prefix === null) return notA("a network", value, fix, subject(value));
      const isEverybody = typeof value === "string" && /\/0+$/.test(value);
      return isEverybody ? new InvalidValue("this would trust everybody", "give the networks of your proxies only") : prefix;
    },
  };
}

/** The scheme may be written in capitals. */
const addressPattern = "^[hH][tT][tT][pP][sS]?://[^/?# ][^?# ]*$";
const queryAddressPattern = "^[hH][tT][tT][pP][sS]?://[^/?# ][^# ]*$";

export function address(use?: AddressUse): Kind<string> {
  return {
    type: "http or https address",
    json: { type: "string", pattern: use?.mayHaveQuery === true ? queryAddressPattern : addressPattern, maxLength: 2048 },
    read: (value) => {
      if (typeof value !== "string") return notA("an address", value, `write it as in ${use?.example ?? "https://api.example.com/v1"}`);
      const verdict = checkAddress(value, use);
      return verdict.ok ? verdict.url : new InvalidValue(verdict.reason, verdict.fix);
    },
  };
}

/** An address that nothing is added to, and that others compare as a text: a slash at its end stays. */
export function exactAddress(use?: AddressUse): Kind<string> {
  const kind = address(use);
  return {
    ...kind,
    read: (value) => {
      const read = kind.read(value);
      return read instanceof InvalidValue ? read : String(value);
    },
  };
}

/** An address whose path or query is as good as a password, as with many receivers of webhooks. */
export function secretAddress(use: AddressUse): Kind<string> {
  return { ...exactAddress({ ...use, mayHaveQuery: true }), secrecy: "path" };
}

/** The name of a host alone, or its address: what the header `Host` has before the port. */
export function hostName(): Kind<string> {
  const fix = "write the name alone, as in sluice.example.com";
  return {
    type: "host name",
    json: pattern(hostNamePattern),
    read: (value) => {
      if (typeof value !== "string") return notA("a host name", value, fix);
      if (hostNamePattern.test(value)) return value;
      return new InvalidValue(`${subject(value)} is not the name of a host`, fix);
    },
  };
}

/** An IPv6 address may be in brackets. Names inside of a network may have underscores. */
const hostNamePattern = /^(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[?[0-9A-Fa-f:.]{2,45}\]?)$/;

/**
 * The address of an issuer of tokens, or of its keys. It is compared as a text with what tokens say, so that it stays as it is written.
 * Over plain HTTP anybody on the way could replace the keys.
 */
export function issuer(): Kind<string> {
  const fix = "write it exactly as the issuer does, as in https://login.example.com";
  return {
    type: "https address",
    json: { type: "string", pattern: addressPattern, maxLength: 2048 },
    read: (value) => {
      if (typeof value !== "string") return notA("an address", value, fix);
      const verdict = checkAddress(value);
      if (!verdict.ok) return new InvalidValue(verdict.reason, verdict.fix);
      if (verdict.secure || isLoopback(new URL(value).hostname.replace(/^\[|\]$/g, ""))) return value;
      return new InvalidValue("an issuer must be reached over https, unless it is on this machine", fix);
    },
  };
}

/** A point in time in wall-clock milliseconds. A date without a time is midnight UTC. */
export function moment(): Kind<number> {
  const fix = "write a date such as 2027-01-01, or a time such as 2027-01-01T12:00:00Z";
  return {
    type: "date",
    json: pattern(momentPattern),
    read: (value) => {
      const shaped = typeof value === "string" && momentPattern.test(value);
      if (!shaped) return notA("a date", value, fix, subject(value));
      const ms = Date.parse(value);
      // Some JavaScript engines turn 2027-02-31 into a day in March.
      const day = value.slice(0, 10);
      const exists = new Date(`${day}T00:00:00Z`).getTime() >= 0 && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
      return Number.isFinite(ms) && exists ? ms : new InvalidValue(`there is no such day or time: ${value}`, fix);
    },
  };
}

const momentPattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?(\.\d{1,3})?(Z|[+-]\d\d:\d\d))?$/;

export function list<T>(kind: Kind<T>, itemsMax: number): Kind<readonly T[]> {
  return {
    type: `list of ${kind.type}`,
    json: { type: "array", items: orVariable(kind.json), minItems: 1, maxItems: itemsMax, uniqueItems: true },
    ...(kind.secrecy === undefined ? {} : { secrecy: kind.secrecy }),
    read: (value) => {
      if (!Array.isArray(value)) return notA("a list", value, "write a list, as in [a, b]");
      if (value.length === 0) return new InvalidValue("this list is empty", "fill it, or remove the line");
      if (value.length > itemsMax) return new InvalidValue(`this list is longer than ${itemsMax}`, "shorten it");
      const seen = new Set<T>();
      for (const [at, item] of value.entries()) {
        const read = kind.read(item);
        if (read instanceof InvalidValue) return new InvalidValue(read.reason, read.fix, [at, ...read.path]);
        if (seen.has(read)) return new InvalidValue("this is in the list twice", "remove one of the two", [at]);
        seen.add(read);
      }
      return [...seen];
    },
  };
}

/** A map from names to values of one type. */
export function mapOf<T>(keys: Kind<string>, values: Kind<T>, type: string): Kind<ReadonlyMap<string, T>> {
  return {
    type,
    json: { type: "object", propertyNames: keys.json, additionalProperties: orVariable(values.json) },
    ...(values.secrecy === undefined ? {} : { secrecy: values.secrecy }),
    read: (value) => {
      if (!isGroup(value)) return notA("a group of settings", value, "write { name: value, … }");
      const result = new Map<string, T>();
      for (const [key, item] of Object.entries(value)) {
        const name = keys.read(key);
        if (name instanceof InvalidValue) return new InvalidValue(name.reason, name.fix, [key]);
        const read = values.read(item);
        if (read instanceof InvalidValue) return new InvalidValue(read.reason, read.fix, [key, ...read.path]);
        if (result.has(name)) return new InvalidValue("this is set twice", "remove one of the two", [key]);
        result.set(name, read);
      }
      return result;
    },
  };
}

/** One value for all models, or values by the models' upstream names, in which a `*` stands for any run of characters. */
export function perModel<T>(kind: Kind<T>): Kind<ReadonlyMap<string, T>> {
  const asMap = mapOf(text(), kind, "map");
  return {
    type: `${kind.type}, or a map from models to these`,
    json: anyOf(kind.json, { ...asMap.json, minProperties: 1 }),
    read: (value) => {
      if (isGroup(value)) {
        const values = asMap.read(value);
        if (values instanceof InvalidValue || values.size > 0) return values;
        return new InvalidValue("this does not name any model", "fill it, or remove the line");
      }
      const read = kind.read(value);
      return read instanceof InvalidValue ? read : new Map([["*", read]]);
    },
  };
}

export function operationList(): Kind<readonly Operation[]> {
  return { ...list(choice(operations), operations.length), type: `list of ${operations.join(", ")}` };
}

export function models(): Kind<ModelsSetting> {
  const modelName: Kind<string> = {
    type: "model",
    json: { type: "string", minLength: 1, maxLength: 256, pattern: "^[^*]*$" },
    read: (value) => {
      const read = text().read(value);
      if (read instanceof InvalidValue || !read.includes("*")) return read;
      return new InvalidValue("a star cannot stand for part of a model's name here", 'name each model, or write models: "*" for any');
    },
  };
  const asList = list(modelName, modelsMax);
  const asMap = mapOf(modelName, modelName, "map");
  return {
    type: 'map, list or `"*"`',
    json: anyOf({ const: "*" }, asList.json, { ...asMap.json, minProperties: 1 }),
    read: (value) => {
      if (value === "*") return { kind: "any" };
      if (Array.isArray(value)) {
        const names = asList.read(value);
        return names instanceof InvalidValue ? names : { kind: "map", names: new Map(names.map((name) => [name, name])) };
      }
      if (!isGroup(value)) return notA("a list or map of models", value, 'write [a, b], { name: upstream-name } or "*"');
      const names = asMap.read(value);
      if (names instanceof InvalidValue) return names;
      if (names.size === 0)
        return new InvalidValue("this does not name any model", "fill it, or remove the line to have models discovered");
      return { kind: "map", names };
    },
  };
}

const modelsMax = 10_000;

/** Headers that the gateway sets itself, or that belong to a single connection (RFC 9110, section 7.6.1). */
const reservedHeaders = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "cookie",
  "expect",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const keyHeaders = new Set(["authorization", "api-key", "x-api-key", "x-goog-api-key"]);

const headerPattern = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/;

/** The name of a header, in lower case. */
export function headerName(): Kind<string> {
  return {
    type: "header name",
    json: pattern(headerPattern),
    read: (value) => {
      if (typeof value !== "string") return notA("the name of a header", value, textFix);
      if (!headerPattern.test(value)) {
        return new InvalidValue("this cannot be the name of a header", "use letters, digits and dashes");
      }
      const lower = value.toLowerCase();
      return reservedHeaders.has(lower) ? new InvalidValue("the gateway sets this header itself", "remove it") : lower;
    },
  };
}

/** A header that does not carry the key. */
export function plainHeaderName(): Kind<string> {
  return {
    type: "header name",
    json: pattern(headerPattern),
    read: (value) => {
      const read = headerName().read(value);
      if (read instanceof InvalidValue || !keyHeaders.has(read)) return read;
      return new InvalidValue("a key does not belong here", "give the key as api_key; auth_header says which header carries it");
    },
  };
}

/** People put tokens into headers, so that a value counts as a secret. */
export function headerValue(): Kind<string> {
  return {
    type: "text",
    json: { type: "string", minLength: 1, maxLength: 4096 },
    secrecy: "whole",
    read: (value) => {
      const read = text(4096).read(value);
      if (read instanceof InvalidValue || /^[\x20-\x7e]*$/.test(read)) return read;
      return new InvalidValue("a header may contain only ASCII characters", "remove the others");
    },
  };
}

/** `sqlite`, `memory` or the address of a server. The address may contain a password, so that it is never quoted. */
export function backend(builtIn: string, schemes: readonly string[]): Kind<string> {
  return {
    type: `\`${builtIn}\` or ${schemes.map((scheme) => `\`${scheme}://…\``).join(" or ")}`,
    json: anyOf({ const: builtIn }, { type: "string", pattern: `^(${schemes.join("|").replaceAll("+", "\\+")})://` }),
    secrecy: "password",
    read: (value) => {
      if (value === builtIn) return builtIn;
      const known = typeof value === "string" && schemes.some((scheme) => value.startsWith(`${scheme}://`));
      return known
        ? value
        : notA("a supported backend", value, `write ${builtIn} or ${schemes.map((scheme) => `${scheme}://…`).join(" or ")}`);
    },
  };
}

export function isGroup(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A missing line and an empty value have their own messages. `shown` is how the value may be called. */
export function notA(what: string, value: unknown, fix: string, shown = "this"): InvalidValue {
  if (value === undefined) return new InvalidValue("this is missing", fix === textFix ? "add it" : fix);
  if (value === null) return new InvalidValue("this has no value", `${fix}, or remove the line`);
  return new InvalidValue(`${shown} is not ${what}`, fix);
}
