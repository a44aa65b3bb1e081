import type { KeyBudgetsAnswer } from "../core/answers.ts";
import { money } from "../core/format.ts";
import { fullness, periods } from "../core/limits.ts";
import { troubleOf, useLoaded } from "../core/query.ts";
import { Ago } from "./moment.tsx";
import { Badge, ErrorNote } from "./notice.tsx";

/** What was spent of the budgets of a key or a group, as bars. */
export function Budgets({ path }: { readonly path: string }) {
  const loaded = useLoaded<KeyBudgetsAnswer>(`${path}/standing`, {}, { everyMs: 30_000 });
  const budgets = loaded.data.value?.budgets ?? [];
  if (budgets.length === 0) return <ErrorNote {...troubleOf(loaded)} />;
  return (
    <section class="card">
      <header>
        <h2>Budgets</h2>
      </header>
      <ul class="stack">
        {budgets.map((budget) => {
          const { share, tone } = fullness(budget.spent_usd, budget.limit_usd);
          const label = `${money(budget.spent_usd)} of ${money(budget.limit_usd)} ${periods[budget.period]}`;
          return (
            <li key={`${budget.name ?? ""} ${budget.models ?? ""} ${budget.period}`} class="stack">
              <div class="row">
                <strong>{budget.name ?? budget.models ?? "All models"}</strong>
                <span>{label}</span>
                {tone === "bad" && <Badge tone="bad">used up: its calls are refused</Badge>}
                {budget.resets_at !== null && (
                  <span class="small muted">
                    begins again <Ago at={budget.resets_at} />
                  </span>
                )}
              </div>
              <div
                class={`bar ${tone}`}
                role="meter"
                aria-label={label}
                aria-valuemin={0}
                aria-valuemax={100}
                aria-valuenow={Math.round(share * 100)}
              >
                <i style={{ width: `${share * 100}%` }} />
              </div>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
