import { isNearlySpent, isSpent, type BudgetUse } from "../../limits/budget-use.ts";
import type { ChannelStatus } from "../channel-context.ts";

/** Something that is wrong now, and what to do about it. */
export interface GatewayProblem {
  /** `critical`: calls fail or are lost because of it. */
  readonly severity: "critical" | "warning";
  /** Such as `channel_cooling`. */
  readonly kind: string;
  /** The name of the channel, or the id of the key or the group, that it is about. */
  readonly subject: string | null;
  readonly message: string;
  readonly next: string;
  /** When it ends by itself, on the wall clock. */
  readonly untilMs: number | null;
}

export interface ProblemFacts {
  readonly storeOk: boolean;
  readonly stateOk: boolean;
  readonly insecureTransport: boolean;
  readonly certificateDaysLeft: number | null;
  readonly channels: readonly ChannelStatus[];
  readonly budgets: readonly BudgetFact[];
  /** The last minutes. */
  readonly traffic: { readonly calls: number; readonly failed: number };
}

export interface BudgetFact extends BudgetUse {
  readonly of: "key" | "group";
  readonly id: string;
  readonly name: string;
  /** Its label; empty for all models. */
  readonly models: string;
}

/** Everything that is wrong now, the worst first. Pages show it, and a monitor can ask for it. */
export function problemsOf(facts: ProblemFacts): readonly GatewayProblem[] {
  const problems = [
    ...ofStore(facts),
    ...ofTraffic(facts),
    ...facts.channels.flatMap(ofChannel),
    ...budgetProblems(facts.budgets),
    ...ofTransport(facts),
  ];
  return problems.toSorted((one, other) => Number(other.severity === "critical") - Number(one.severity === "critical"));
}

function ofStore({ storeOk, stateOk, channels }: ProblemFacts): readonly GatewayProblem[] {
  return [
    ...(storeOk
      ? []
      : [
          critical(
            "store_lost",
            null,
            "The store cannot be reached. Calls with known keys are served; receipts wait in the journal.",
            "Check the disk or the database server.",
          ),
        ]),
    ...(stateOk
      ? []
      : [
          warning(
            "limits_not_shared",
            null,
            "The shared limits cannot be reached, so that each replica counts by itself.",
            "Check the Redis or the database server.",
          ),
        ]),
    ...(channels.length > 0
      ? []
      : [
          critical(
            "no_channel",
            null,
            "There is no channel, so that no model can answer.",
            "Add a channel, or set a provider's key and start again.",
          ),
        ]),
  ];
}

function ofTraffic({ traffic: { calls, failed } }: ProblemFacts): readonly GatewayProblem[] {
  if (calls < callsMin || failed / calls < failedShareMin) return [];
  const share = Math.round((100 * failed) / calls);
  return [critical("many_failures", null, `${share} % of the last ${calls} calls failed.`, "Look at the failed requests for the reason.")];
}

function ofChannel({ name, state, troubles }: ChannelStatus): readonly GatewayProblem[] {
  const untilMs = troubles.length === 0 ? null : Math.min(...troubles.map((trouble) => trouble.untilMs));
  const causes = [...new Set(troubles.map(({ cause }) => cause.replaceAll("_", " ")))].join(", ");
  if (state === "cooling") {
    return [
      {
        ...critical(
          "channel_cooling",
          name,
          `All of channel ${name} cools down (${causes}).`,
          "It is tried again by itself. Look at the cause, or clear the cool-down.",
        ),
        untilMs,
      },
    ];
  }
  if (state === "impaired") {
    return [
      {
        ...warning("channel_impaired", name, `A part of channel ${name} cools down (${causes}).`, "Look at which model or key it is."),
        untilMs,
      },
    ];
  }
  if (state === "idle")
    return [warning("channel_idle", name, `Channel ${name} serves no model.`, "List its models, or check whether its upstream lists any.")];
  return [];
}

/** All that administrators of a group are shown: the rest is about the whole gateway. */
export function budgetProblems(budgets: readonly BudgetFact[]): readonly GatewayProblem[] {
  return budgets.flatMap((budget) => {
    const { of, id, name, models } = budget;
    const what = models === "" ? `The budget of ${of} ${name}` : `The budget of ${of} ${name} for ${models}`;
    if (isSpent(budget)) {
      const isEmpty = budget.spentNanos >= budget.limitNanos;
      const refused = isEmpty ? "is used up: its calls are refused." : "has too little left: calls that may cost more are refused.";
      return [warning("budget_used_up", id, `${what} ${refused}`, "Raise it, or wait for the next period.")];
    }
    if (isNearlySpent(budget)) return [warning("budget_near", id, `${what} is nearly used up.`, "Raise it before its calls are refused.")];
    return [];
  });
}

function ofTransport({ insecureTransport, certificateDaysLeft }: ProblemFacts): readonly GatewayProblem[] {
  return [
    ...(insecureTransport
      ? [
          warning(
            "insecure_transport",
            null,
            "Other machines reach this gateway over plain HTTP.",
            "Set a certificate (tls), or put a proxy with TLS in front.",
          ),
        ]
      : []),
    ...(certificateDaysLeft !== null && certificateDaysLeft < certificateDaysMin
      ? [
          critical(
            "certificate_expires",
            null,
            `The certificate expires in ${certificateDaysLeft} days.`,
            "Renew it: the gateway reads the new file by itself.",
          ),
        ]
      : []),
  ];
}

function critical(kind: string, subject: string | null, message: string, next: string): GatewayProblem {
  return { severity: "critical", kind, subject, message, next, untilMs: null };
}

function warning(kind: string, subject: string | null, message: string, next: string): GatewayProblem {
  return { severity: "warning", kind, subject, message, next, untilMs: null };
}

/** Fewer calls say little. */
const callsMin = 20;
const failedShareMin = 0.1;
const certificateDaysMin = 14;
