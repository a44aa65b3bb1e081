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
      /** Null: from today on. */
      readonly fromMs: number | null;
      readonly rates: PriceRates;
      readonly note: string | null;
    }
  | { readonly act: "remove"; readonly price: string; readonly provider: string | null }
);

const perMillion = "dollars per million";

/** What each rate is for. */
const rateMeanings: { readonly [W in PriceField]: string } = {
  input: `${perMillion} prompt tokens`,
  cached_input: `${perMillion} of those that came from a cache (default: as input)`,
  cache_write: `${perMillion} of those that were put into a cache (default: as input)`,
  output: `${perMillion} tokens of answers`,
  reasoning: `${perMillion} of those that were reasoning (default: as output)`,
  audio_input: `${perMillion} audio tokens of prompts (default: as input)`,
  audio_output: `${perMillion} audio tokens of answers (default: as output)`,
  characters: `${perMillion} characters that are spoken`,
  second: "dollars per second that is transcribed",
  call: "dollars per call",
  long_above_tokens: "a prompt of more tokens is long, and has the rates below",
  long_input: `${perMillion} prompt tokens of a long prompt`,
  long_cached_input: `${perMillion} of those that came from a cache`,
  long_cache_write: `${perMillion} of those that were put into a cache`,
  long_output: `${perMillion} tokens of answers to a long prompt`,
};

export function addPrices({ program, take }: CommandRegistry): void {
  const prices = program.command("prices").description("show and set what models cost").addHelpText("after", pricesExamples);

  prices
    .command("list", { isDefault: true })
    .description("list the prices in force, and where they come from")
    .argument("[model]", "only of this model; a * stands for any run of characters", line(200))
    .option("--all", "include expired and overridden prices")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", pricesExamples)
    .action((model: string | undefined, { config, json = false, all = false }: CommonOptions & { all?: boolean }) =>
      take(config, { on: "prices", act: "list", json, model: model ?? null, all }),
    );

  const set = prices
    .command("set")
    .description("set what a model costs; overrides the shipped prices")
    .argument("<model>", "the upstream's name of the model; a * stands for any run of characters", line(200))
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
      take(config, { on: "prices", act: "set", json, model, provider, fromMs: from, rates, note });
    });

  prices
    .command("remove")
    .description("remove a price that was set")
    .argument("<price>", "its id, or the name of its model", line(200))
    .option("--provider <name>", "the one for this provider", line(64))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", removeExamples)
    .action((price: string, { config, json = false, provider }: CommonOptions & { provider?: string }) =>
      take(config, { on: "prices", act: "remove", json, price, provider: provider ?? null }),
    );
}

type SetOptions = { readonly provider?: string; readonly from?: number; readonly note?: string } & {
  readonly [A in Attribute<PriceField>]?: number;
};

/** As the reader of the command line calls an option. */
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

A price of the configuration file goes before one that is set here, and that before the ones that come along.
`;

const setExamples = `
Examples:
  $ sluice prices set large --input 2.50 --output 10
  $ sluice prices set large --provider router --from 2027-01-01 --input 2 --output 8
  $ sluice prices set hearing --second 0.0001
  $ sluice prices set 'home-*' --input 0 --output 0

Rates that are not given are unknown, not zero. A price for the same model, provider and day is replaced. Costs of calls
that are over stay as they are.
`;

const removeExamples = `
Examples:
  $ sluice prices remove large
  $ sluice prices remove large --provider router
`;
