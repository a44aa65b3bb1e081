import { z } from "zod";
import { rateNanosMax } from "../../usage/price.ts";
import { priceFieldNames } from "../../usage/price-fields.ts";
import { groups, optional, required } from "../field.ts";
import { dollars, flag, integer, InvalidValue, moment, notA, secret, text, type Kind } from "../kinds.ts";
import { channelShape, groupShape, keyShape } from "../schema.ts";

/** Text of several lines. */
function prose(charactersMax: number): Kind<string> {
  return {
    type: "text",
    json: { type: "string", minLength: 1, maxLength: charactersMax },
    read: (value) => {
      if (typeof value !== "string") return notA("text", value, "write text; put it in quotes if it looks like a number");
      return value === "" || value.length > charactersMax
        ? new InvalidValue(`this must have 1 to ${charactersMax} characters`, "shorten it, or remove the line")
        : value;
    },
  };
}

const hashPattern = /^[0-9a-f]{64}$/;

function hash(): Kind<string> {
  const fix = "copy it as sluice config export wrote it";
  return {
    type: "hash",
    json: { type: "string", pattern: hashPattern.source },
    read: (value) => (typeof value === "string" && hashPattern.test(value) ? value : notA("a hash", value, fix)),
  };
}

/** The same rates as in the configuration file, which says what each of them means. */
const ratesShape = Object.fromEntries(
  priceFieldNames.map((field) => [
    field,
    field === "long_above_tokens"
      ? optional(integer(1, 1e9), "A prompt of more tokens than this has the `long_…` rates.")
      : optional(dollars(rateNanosMax), "Dollars, as in `sluice prices set`."),
  ]),
) as Record<(typeof priceFieldNames)[number], ReturnType<typeof optional<number>>>;

const { api_key_file: _file, proxy: _proxy, ...storedChannelShape } = channelShape;

/** The file of `sluice config export`, `diff` and `apply`: what the store holds, in the words of the configuration file. */
export const resourceFileSchema = z.strictObject({
  store_id: optional(text(64), "The store that made the hashes of keys. It is written by `sluice config export`."),
  channels: groups(storedChannelShape, "The channels of the store. Without `api_key` or `api_keys`, a channel keeps the keys it has."),
  groups: groups(
    {
      ...groupShape,
      name: required(text(200), "The group's name in messages, lists and receipts. It must be unique."),
      parent: optional(
        text(200),
        "The group above it, here, in the store or in the configuration file. There are at most three levels.",
        "none",
      ),
      frozen: optional(flag(), "Whether all keys of the group are rejected.", "as it is in the store"),
      note: optional(prose(10_000), "Anything worth knowing about it."),
    },
    "The groups of the store.",
  ),
  keys: groups(
    {
      ...keyShape,
      name: required(text(200), "The key's name in logs and receipts. It must be unique."),
      id: optional(text(200), "The key's id. With it, the key can get another name.", "the key of this name"),
      key: optional(
        secret(),
        "What clients send, at least 32 characters. Take it from a variable. A new key needs it, or a `hash`; an existing one keeps its token without it.",
      ),
      hash: optional(hash(), "In place of `key`: the keyed hash of a token, as the store has it. It fits that store and its backups only."),
      last4: optional(text(4), "The end of the token that the hash was made of."),
      owner: optional(text(200), "Whose key it is."),
      note: optional(prose(10_000), "Anything worth knowing about it."),
      group: optional(text(200), "The group that the key belongs to, here, in the store or in the configuration file.", "none"),
    },
    "The client keys of the store.",
  ),
  prices: groups(
    {
      provider: optional(text(64), "The provider that the price applies to, as in a channel's `provider`.", "every provider of the model"),
      model: required(text(200), "The upstream's name of the model. A `*` stands for any run of characters."),
      from: optional(moment(), "The first day on which the price applies.", "always"),
      ...ratesShape,
      note: optional(prose(10_000), "Such as where the price was found."),
    },
    "The prices of the store.",
  ),
});

export type ResourceFile = z.infer<typeof resourceFileSchema>;
