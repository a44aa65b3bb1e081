import { StorageError, type Actor, type PriceStorage, type StoredPrice } from "../../gateway/storage.ts";
import type { Price, PriceRates } from "../../usage/price.ts";
import { change, type TableContext } from "./change.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";
import type { JsonObject } from "../../operations/json.ts";
import { parsedObject } from "../stored-json.ts";
import { checkName, checkText, isValidName, noteCharactersMax } from "../stored-text.ts";

export class PriceTable implements PriceStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async list(): Promise<readonly StoredPrice[]> {
    const rows = await this.database.all<PriceRow>(
      sql`select id, provider, model, from_ms, rates, note, created_ms from prices order by provider, model, from_ms`,
    );
    return rows.flatMap((row) => {
      const rates = ratesFrom(parsedObject(row.rates));
      if (rates !== null) return [priceFrom(row, rates)];
      this.context.damaged?.({ table: "prices", id: row.id, column: "rates" });
      return [];
    });
  }

  async set(price: Price & { readonly note: string | null }, by: Actor): Promise<StoredPrice> {
    const { model, fromMs, note } = price;
    const provider = price.provider ?? anyProvider;
    const rates = ratesFrom({ ...price.rates });
    checkName("The model of a price", model);
    if (price.provider !== null) checkName("The provider of a price", price.provider);
    checkText("The note of a price", note, noteCharactersMax);
    if (rates === null || !Number.isSafeInteger(fromMs))
      throw new StorageError("invalid", "This price cannot be stored: a rate or its day is invalid.");
    return change(this.database, this.context, by, async (transaction) => {
      const day = Math.floor(fromMs / dayMs) * dayMs;
      const sameDay = sql`provider = ${provider} and model = ${model} and from_ms >= ${day} and from_ms < ${day + dayMs}`;
      const [before] = await transaction.all<{ readonly id: string; readonly rates: string }>(
        sql`select id, rates from prices where ${sameDay} order by from_ms`,
      );
      await transaction.run(sql`delete from prices where ${sameDay}`);
      const id = before?.id ?? this.context.newId();
      const createdMs = this.context.wallMs();
      await transaction.run(sql`
        insert into prices (id, provider, model, from_ms, rates, note, created_ms)
        values (${id}, ${provider}, ${model}, ${fromMs}, ${JSON.stringify(rates)}, ${note}, ${createdMs})`);
      const from = before === undefined ? null : parsedObject(before.rates);
      const detail = { provider: price.provider, model, fromMs, rates: { from, to: rates } };
      const value = { id, provider: price.provider, model, fromMs, rates, note, createdMs };
      return { value, audit: { action: "price.set", subject: id, detail } };
    });
  }

  async remove(id: string, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const [row] = isValidName(id)
        ? await transaction.all<PriceRow>(sql`select id, provider, model, from_ms, rates from prices where id = ${id}`)
        : [];
      if (row === undefined) throw new StorageError("missing", "There is no such price.");
      await transaction.run(sql`delete from prices where id = ${id}`);
      const detail = { provider: providerOf(row), model: row.model, fromMs: row.from_ms, rates: parsedObject(row.rates) };
      return { value: null, audit: { action: "price.remove", subject: id, detail } };
    });
  }
}

interface PriceRow {
  readonly id: string;
  readonly provider: string;
  readonly model: string;
  readonly from_ms: number;
  readonly rates: string;
  readonly note: string | null;
  readonly created_ms: number;
}

/** Stored instead of null, because a unique index allows any number of nulls. */
const anyProvider = "";
const dayMs = 86_400_000;

function priceFrom(row: PriceRow, rates: PriceRates): StoredPrice {
  const { id, model, note } = row;
  return { id, provider: providerOf(row), model, fromMs: row.from_ms, rates, note, createdMs: row.created_ms };
}

function providerOf({ provider }: PriceRow): string | null {
  return provider === anyProvider ? null : provider;
}

/** Null if one of the rates is invalid: a price without it would be too low. */
function ratesFrom(value: JsonObject | null): PriceRates | null {
  if (value === null) return null;
  const known = Object.entries(value).filter(([, rate]) => rate !== undefined);
  return known.every(([, rate]) => typeof rate === "number" && Number.isFinite(rate) && rate >= 0) ? Object.fromEntries(known) : null;
}
