import type { AuditEntry } from "../../gateway/storage.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { isFromTo, type FromTo } from "./field-changes.ts";

/** How a change can be taken back. `words` say what will happen. */
export interface UndoPlan {
  readonly step: UndoStep;
  readonly words: string;
  /** What stays as it is now, because it is not in the log. */
  readonly remarks: readonly string[];
  /** The secrets of the channel have to be given again: none are kept. */
  readonly needsSecrets: boolean;
}

export type UndoStep =
  | { readonly kind: "edit"; readonly of: "key" | "group" | "channel" | "account"; readonly fields: FieldValues }
  | { readonly kind: "revoke_key" | "remove_group" | "restore_group" | "remove_account" }
  | { readonly kind: "revoke_token"; readonly last4: string | null }
  | { readonly kind: "add_channel"; readonly settings: JsonObject }
  | { readonly kind: "remove_channel"; readonly settings: JsonObject; readonly last4: readonly unknown[] | null }
  | { readonly kind: "price"; readonly price: AuditedPrice; readonly from: JsonObject | null; readonly to: JsonObject | null }
  | { readonly kind: "block" | "unblock"; readonly subject: string | null }
  | { readonly kind: "allow_local"; readonly untilMs: FromTo };

/** What each field was before and after the change. */
export type FieldValues = Readonly<Record<string, FromTo>>;

export interface AuditedPrice {
  readonly provider: string | null;
  readonly model: string;
  readonly fromMs: number;
}

/** The plan, or why there is none. It is known before anything is tried. */
export function undoPlanOf({ action, detail }: Pick<AuditEntry, "action" | "detail">): UndoPlan | { readonly why: string } {
  switch (action) {
    case "key.create":
      return plan({ kind: "revoke_key" }, "Revokes the key for good, and ends its running calls.");
    case "key.change":
      return edit("key", detail);
    case "key.revoke":
      return { why: "A key is revoked for good: create another one with the same settings." };
    case "key.rotate":
      return { why: "Of a token only a hash is kept, so that an old one cannot be given back: rotate the key again." };
    case "group.create":
    case "group.restore":
      return plan({ kind: "remove_group" }, "Deletes the group, if it has neither keys nor groups nor accounts.");
    case "group.change":
    case "group.freeze":
    case "group.unfreeze":
      return edit("group", detail);
    case "group.delete":
      return plan({ kind: "restore_group" }, "Brings the group back, with its limits and what it used.");
    case "channel.create":
      return channelPlan("remove_channel", detail, "Removes the channel with its secrets. Its running calls continue.");
    case "channel.remove":
      return channelPlan("add_channel", detail, "Adds the channel again, with its settings.");
    case "channel.change":
      return channelEdit(detail);
    case "price.set":
    case "price.remove":
      return pricePlan(action, detail);
    case "account.create":
      return plan({ kind: "remove_account" }, "Removes the account, and ends its sessions.");
    case "account.change":
      return edit("account", detail);
    case "account.remove":
      return { why: "The password of a removed account is gone: create the account again." };
    case "account.allow_local":
      return isFromTo(detail["until_ms"])
        ? plan({ kind: "allow_local", untilMs: detail["until_ms"] }, "Sets until when local accounts may be used back to what it was.")
        : { why: notRecorded };
    case "token.create":
      return plan({ kind: "revoke_token", last4: textOrNull(detail["last4"]) }, "Revokes the token for good.");
    case "token.revoke":
      return { why: "A token is revoked for good: create another one." };
    case "issuer.block":
      return plan({ kind: "unblock", subject: textOrNull(detail["subject"]) }, "Accepts the tokens again.");
    case "issuer.unblock":
      return plan({ kind: "block", subject: textOrNull(detail["subject"]) }, "Refuses the tokens again.");
    case "config.reload":
      return { why: "This came by the configuration file: put back there what was there before." };
    default:
      return { why: "This changed nothing that could be taken back." };
  }
}

function plan(step: UndoStep, words: string, remarks: readonly string[] = [], needsSecrets = false): UndoPlan {
  return { step, words, remarks, needsSecrets };
}

/** The log has no values that are too long. */
const notRecorded = "The log does not have the values from before: they were too long.";

function edit(of: "key" | "group" | "account", detail: JsonObject): UndoPlan | { readonly why: string } {
  const fields = fieldsIn(detail);
  const lost = lostIn(detail);
  if (Object.keys(fields).length === 0) {
    return { why: lost.length === 0 ? notRecorded : `The log does not have what was there before: ${lost.join(", ")}.` };
  }
  return plan({ kind: "edit", of, fields }, `Sets ${Object.keys(fields).join(", ")} back to what was there before.`, lost.map(stays));
}

/** The fields of which the log knows only that they changed: they are secret, may contain anything, or were too long. */
function lostIn(detail: JsonObject): readonly string[] {
  return Object.keys(detail).filter((name) => detail[name] === "changed");
}

function stays(name: string): string {
  return `The ${name} stays as it is: the log does not have the old one.`;
}

function fieldsIn(detail: JsonObject): FieldValues {
  return Object.fromEntries(Object.entries(detail).filter((field): field is [string, FromTo & JsonObject] => isFromTo(field[1])));
}

function channelEdit(detail: JsonObject): UndoPlan | { readonly why: string } {
  const { headers, ...fields } = isJsonObject(detail["changed"]) ? detail["changed"] : {};
  const needsSecrets = detail["secrets"] === "replaced";
  const isCut = detail["changed"] === undefined && Array.isArray(detail["members"]) && detail["members"].length > 0;
  const known = fieldsIn(fields);
  if (isCut) return { why: notRecorded };
  if (hasHidden(known)) return { why: "A part of the old address is secret, and not in the log: set it again." };
  const lost = lostIn(fields);
  if (Object.keys(known).length === 0 && !needsSecrets && lost.length > 0) return { why: notRecorded };
  if (Object.keys(known).length === 0 && !needsSecrets)
    return { why: "The values of headers are secret, and not in the log: set them again." };
  const names = [...Object.keys(known), ...(needsSecrets ? ["the secrets"] : [])];
  const remarks = [...lost.map(stays), ...(headers === undefined ? [] : [headersStay])];
  return plan(
    { kind: "edit", of: "channel", fields: known },
    `Sets ${names.join(", ")} back to what was there before.`,
    remarks,
    needsSecrets,
  );
}

const headersStay = "The headers stay as they are: their values are secret, and not in the log.";

function channelPlan(kind: "remove_channel" | "add_channel", detail: JsonObject, words: string): UndoPlan | { readonly why: string } {
  const { settings, last4 } = detail;
  if (!isJsonObject(settings)) return { why: notRecorded };
  const { headers, ...rest } = settings;
  if (kind === "remove_channel") return plan({ kind, settings, last4: Array.isArray(last4) ? last4 : null }, words);
  if (hasHidden(rest)) return { why: "A part of the address is secret, and not in the log: add the channel again." };
  const remarks = headers === undefined ? [] : ["It comes back without its headers: their values are secret, and not in the log."];
  return plan({ kind, settings: rest }, words, remarks, Array.isArray(last4) && last4.length > 0);
}

function hasHidden(value: unknown): boolean {
  return JSON.stringify(value).includes("//****@");
}

function pricePlan(action: string, detail: JsonObject): UndoPlan | { readonly why: string } {
  const { provider, model, fromMs, rates } = detail;
  if (typeof model !== "string" || typeof fromMs !== "number") return { why: notRecorded };
  const values: FromTo = action === "price.set" && isFromTo(rates) ? rates : { from: rates, to: null };
  const from = isJsonObject(values.from) ? values.from : null;
  const to = isJsonObject(values.to) ? values.to : null;
  const words = from === null ? "Removes the price: the one that it overrides applies again." : "Sets the price back to what it was.";
  return plan({ kind: "price", price: { provider: textOrNull(provider), model, fromMs }, from, to }, words);
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
