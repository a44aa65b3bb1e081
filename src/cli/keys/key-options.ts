import { type Command, InvalidArgumentError } from "commander";
import type { KeyChange } from "../../keys/stored-key.ts";
import { budgetNanosMax, budgetPeriods, rateLimitMax } from "../../limits/limit-fields.ts";
import type { BudgetPeriod } from "../../limits/limits.ts";
import { operations, type Operation } from "../../operations/operation.ts";
import { budgetChange, rule, type BudgetChange, type LimitChange, type RuleChange } from "./limit-change.ts";
import { choice, dollars, future, line, prose, several, wholeNumber, type Future } from "../option-values.ts";

/** The fields of a key besides its limits. An absent field stays as it is. */
export interface KeyFields extends Pick<KeyChange, "name" | "owner" | "note" | "models" | "operations" | "channels" | "group"> {
  readonly expires?: Future | null;
  readonly longAudio?: boolean;
  readonly longInput?: boolean;
}

const severalWords = "; separate several with commas, or repeat the option";

/** `clearable`: adds `--no-…` options, which clear a field of an existing key. */
export function addFieldOptions(command: Command, clearable: boolean): Command {
  command
    .option("--owner <text>", "who it belongs to", line(200))
    .option("--note <text>", "a note for operators", prose(10_000))
    .option("--group <group>", "the group it belongs to, by id or name; see sluice groups", line(200))
    .option("--model <pattern>", `the models it may use; * matches any characters${severalWords}`, several(line(256)))
    .option("--operation <name>", `the operations it may use: ${operations.join(", ")}${severalWords}`, several(choice(operations)))
    .option("--channel <pattern>", `the channels it may use, by name or tag${severalWords}`, several(line(256)))
    .option("--expires <when>", "when it stops working: a date, or how long from now, such as 30d", future)
    .option("--long-audio", "split recordings that are too long for one request, and join the results")
    .option("--long-input", "split texts that are too long for one speech request, and join the audio");
  if (!clearable) return command;
  return command
    .option("--no-owner", "remove the owner")
    .option("--no-note", "remove the note")
    .option("--no-group", "take it out of its group")
    .option("--no-model", "allow every model")
    .option("--no-operation", "allow every operation")
    .option("--no-channel", "allow every channel")
    .option("--no-expires", "never expire")
    .option("--no-long-audio", "reject recordings that are too long")
    .option("--no-long-input", "reject texts that are too long");
}

export interface FieldOptions {
  readonly name?: string;
  readonly owner?: string | false;
  readonly note?: string | false;
  readonly group?: string | false;
  readonly model?: readonly string[] | false;
  readonly operation?: readonly Operation[] | false;
  readonly channel?: readonly string[] | false;
  readonly expires?: Future | false;
  readonly longAudio?: boolean;
  readonly longInput?: boolean;
}

export function fieldsOf(options: FieldOptions): KeyFields {
  const { name, owner, note, group, model, operation, channel, expires, longAudio, longInput } = options;
  return {
    ...(name === undefined ? {} : { name }),
    ...(owner === undefined ? {} : { owner: orNull(owner) }),
    ...(note === undefined ? {} : { note: orNull(note) }),
    ...(group === undefined ? {} : { group: orNull(group) }),
    ...(model === undefined ? {} : { models: orNull(model) }),
    ...(operation === undefined ? {} : { operations: orNull(operation) }),
    ...(channel === undefined ? {} : { channels: orNull(channel) }),
    ...(expires === undefined ? {} : { expires: orNull(expires) }),
    ...(longAudio === undefined ? {} : { longAudio }),
    ...(longInput === undefined ? {} : { longInput }),
  };
}

/** `clearable`: adds `--no-…` options, which remove a limit of an existing key. */
export function addLimitOptions(command: Command, clearable: boolean): Command {
  command
    .option("--rpm <n>", "requests per minute", wholeNumber(1, rateLimitMax.rpm))
    .option("--tpm <n>", "tokens per minute, of prompts and answers together", wholeNumber(1, rateLimitMax.tpm))
    .option("--audio-seconds <n>", "seconds of audio to be transcribed, per minute", wholeNumber(1, rateLimitMax.audio_seconds))
    .option("--characters <n>", "characters to be spoken, per minute", wholeNumber(1, rateLimitMax.characters))
    .option("--concurrency <n>", "requests at the same time", wholeNumber(1, rateLimitMax.concurrency))
    .option("--budget <dollars>", "how much it may spend", dollars(budgetNanosMax))
    .option("--budget-period <period>", `the period of the budget: ${budgetPeriods.join(", ")} (default: total)`, choice(budgetPeriods))
    .option(
      "--unpriced <what>",
      "with a budget, refuse or allow calls whose price is unknown (default: refuse)",
      choice(["refuse", "allow"]),
    )
    .option(
      "--per-model <rule>",
      "limits for matching models, such as 'large-*:rpm=10,budget_usd=5,budget_period=day'; may be repeated",
      (text: string, before: RulesOption) => rules(rule(text), before),
    )
    .option(
      "--selected-budget <budget>",
      "a budget for some calls, such as 'images:operations=image,budget_usd=5,budget_period=day' (models, operations, channels; several values with |); may be repeated",
      (text: string, before: readonly BudgetChange[] | undefined) => budgets(budgetChange(text), before),
    );
  if (!clearable) return command;
  return command
    .option("--no-rpm", "remove the limit on requests")
    .option("--no-tpm", "remove the limit on tokens")
    .option("--no-audio-seconds", "remove the limit on seconds of audio")
    .option("--no-characters", "remove the limit on characters")
    .option("--no-concurrency", "remove the limit on requests at the same time")
    .option("--no-budget", "remove the budget")
    .option("--no-per-model", "remove all limits per model; a single rule with --per-model 'large-*:off'");
}

export interface LimitOptions {
  readonly rpm?: number | false;
  readonly tpm?: number | false;
  readonly audioSeconds?: number | false;
  readonly characters?: number | false;
  readonly concurrency?: number | false;
  readonly budget?: number | false;
  readonly budgetPeriod?: BudgetPeriod;
  readonly unpriced?: "refuse" | "allow";
  readonly perModel?: Exclude<RulesOption, undefined>;
  readonly selectedBudget?: readonly BudgetChange[];
}

function budgets(added: BudgetChange | string, before: readonly BudgetChange[] = []): readonly BudgetChange[] {
  if (typeof added === "string") throw new InvalidArgumentError(added);
  return [...before, added];
}

type RulesOption = LimitChange["rules"] | false | undefined;

function rules(added: RuleChange | string, before: RulesOption): LimitChange["rules"] {
  if (typeof added === "string") throw new InvalidArgumentError(added);
  const { clears, changes } = rulesOf(before);
  return { clears, changes: [...changes, added] };
}

function rulesOf(option: RulesOption): LimitChange["rules"] {
  return option === undefined || option === false ? { clears: option === false, changes: [] } : option;
}

/** Null if no limit is given. */
export function limitsGiven(options: LimitOptions): LimitChange | null {
  const { rpm, tpm, audioSeconds, characters, concurrency, budget, budgetPeriod, unpriced, perModel, selectedBudget } = options;
  const given = [rpm, tpm, audioSeconds, characters, concurrency, budget, budgetPeriod, unpriced, perModel, selectedBudget];
  if (given.every((option) => option === undefined)) return null;
  return {
    rates: {
      ...(rpm === undefined ? {} : { requests: orNull(rpm) }),
      ...(tpm === undefined ? {} : { tokens: orNull(tpm) }),
      ...(audioSeconds === undefined ? {} : { audioSeconds: orNull(audioSeconds) }),
      ...(characters === undefined ? {} : { characters: orNull(characters) }),
      ...(concurrency === undefined ? {} : { concurrency: orNull(concurrency) }),
    },
    ...(budget === undefined ? {} : { budgetNanos: orNull(budget) }),
    ...(budgetPeriod === undefined ? {} : { budgetPeriod }),
    ...(unpriced === undefined ? {} : { unpriced }),
    rules: rulesOf(perModel),
    budgets: selectedBudget ?? [],
  };
}

function orNull<T>(value: T | false): T | null {
  return value === false ? null : value;
}
