import { priceFieldNames, ratesOfFields, type PriceField } from "../../usage/price-fields.ts";
import { rateNanosMax, type PriceRates } from "../../usage/price.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { dollars, line, moment, prose, wholeNumber } from "../option-values.ts";

export type PricesRequest = { readonly on: "prices"; readonly json: boolean } & (
  | { readonly act: "list"; readonly model: string | null; readonly all: boolean }
  | {
      readonly act: "set";
      readonly model: string;
      readonly provider: string | null;
      /** Null for today. */
      readonly fromMs: number | null;
      readonly rates: PriceRates;
      readonly note: string | null;
    }
  | { readonly act: "remove"; readonly price: string; readonly provider: string | null }
);

const perMillion = "dollars per million";

/** The description of each rate. */
const rateMeanings: { readonly [W in PriceField]: string } = {
  input: `${perMillion} prompt tokens`,
  cached_input: `${perMillion} prompt tokens read from a cache (default: as input)`,
  cache_write: `${perMillion} prompt tokens written to a cache (default: as input)`,
  cache_write_hour: `${perMillion} prompt tokens written to a cache for an hour (default: as cache_write)`,
  output: `${perMillion} completion tokens`,
  reasoning: `${perMillion} reasoning tokens (default: as output)`,
  audio_input: `${perMillion} audio tokens of prompts (default: as input)`,
  audio_output: `${perMillion} audio tokens of answers (default: as output)`,
  characters: `${perMillion} characters of speech`,
  second: "dollars per second of transcribed audio",
  image: "dollars per generated image",
  call: "dollars per call",
  web_search: "dollars per search of the web that the upstream makes",
  searched_call: "dollars per call in which it searches the web (instead of web_search)",
  file_search: "dollars per search in files that the upstream keeps",
  long_above_tokens: "the --long-… rates apply to prompts of more tokens than this",
  long_input: `${perMillion} prompt tokens of a long prompt`,
  long_cached_input: `${perMillion} tokens of a long prompt read from a cache`,
  long_cache_write: `${perMillion} tokens of a long prompt written to a cache`,
  long_cache_write_hour: `${perMillion} tokens of a long prompt written to a cache for an hour`,
  long_output: `${perMillion} completion tokens for a long prompt`,
};

export function addPrices({ program, onRequest }: CommandRegistry): void {
  const prices = program.command("prices").description("show and set what models cost").addHelpText("after", pricesExamples);

  prices
    .command("list", { isDefault: true })
    .description("list the prices in force, and where they come from")
    .argument("[model]", "only this model; * matches any characters", line(200))
    .option("--all", "include expired and overridden prices")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", pricesExamples)
    .action((model: string | undefined, { config, json = false, all = false }: CommonOptions & { all?: boolean }) =>
      onRequest(config, { on: "prices", act: "list", json, model: model ?? null, all }),
    );

  const set = prices
    .command("set")
    .description("set what a model costs; overrides the shipped prices")
    .argument("<model>", "the upstream's name of the model; * matches any characters", line(200))
    .option("--provider <name>", "only for this provider (default: any provider)", line(64))
    .option("--from <date>", "the first day it applies (default: today)", moment)
    .option("--note <text>", "a note for operators", prose(10_000));
  for (const word of priceFieldNames) {
    const reads = word === "long_above_tokens" ? wholeNumber(1, 1e9) : dollars(rateNanosMax);
    set.option(`--${word.replaceAll("_", "-")} <${word === "long_above_tokens" ? "tokens" : "dollars"}>`, rateMeanings[word], reads);
  }
  set
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", setExamples)
    .action((model: string, options: CommonOptions & SetOptions) => {
      const { config, json = false, provider = null, from = null, note = null } = options;
      const rates = ratesOfFields(Object.fromEntries(priceFieldNames.map((word) => [word, options[attributeOf(word)]])));
      if (Object.keys(rates).length === 0) set.error("error: no rate is given: name at least one, such as --input 0.15");
      onRequest(config, { on: "prices", act: "set", json, model, provider, fromMs: from, rates, note });
    });

  prices
    .command("remove")
    .description("remove a price that was set")
    .argument("<price>", "its id, or the name of its model", line(200))
    .option("--provider <name>", "the price for this provider", line(64))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", removeExamples)
    .action((price: string, { config, json = false, provider }: CommonOptions & { provider?: string }) =>
      onRequest(config, { on: "prices", act: "remove", json, price, provider: provider ?? null }),
    );
}

type SetOptions = { readonly provider?: string; readonly from?: number; readonly note?: string } & {
  readonly [A in Attribute<PriceField>]?: number;
};

/** The name that commander gives to an option, such as `cachedInput` for `--cached-input`. */
type Attribute<Word extends string> = Word extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<Attribute<Rest>>}` : Word;

function attributeOf<Word extends PriceField>(word: Word): Attribute<Word> {
  return word.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as Attribute<Word>;
}

const pricesExamples = `
Examples:
  $ sluice prices list
  $ sluice prices list 'large*' --all
  $ sluice prices set large --input 2.50 --cached-input 0.25 --output 10
  $ sluice prices remove large

A price in the configuration file overrides one that is set here, which overrides the shipped prices.
`;

const setExamples = `
Examples:
  $ sluice prices set large --input 2.50 --output 10
  $ sluice prices set large --provider router --from 2027-01-01 --input 2 --output 8
  $ sluice prices set hearing --second 0.0001
  $ sluice prices set 'home-*' --input 0 --output 0

A rate that is not given is unknown, not zero. A price for the same model, provider and day is replaced. The cost of past
calls does not change.
`;

const removeExamples = `
Examples:
  $ sluice prices remove large
  $ sluice prices remove large --provider router
`;
