import { useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect } from "preact/hooks";
import { apiUrl, ask } from "../../core/api.ts";
import { count, duration, money, short } from "../../core/format.ts";
import { pathTo } from "../../core/location.ts";
import { stateTone } from "../../core/tones.ts";
import { TextField } from "../../parts/field.tsx";
import { Badge, EmptyState } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Segments } from "../../parts/segments.tsx";
import { matching, noRows, tokensPerSecond, withFrame, type LiveFrameAnswer, type LiveRow } from "./live-rows.ts";
import { followLive, type LiveConnection } from "./live-source.ts";

/** Requests as they happen. Frames come four times a second at most, however many requests there are. */
export function LivePage() {
  const state = useSignal(noRows);
  const connection = useSignal<LiveConnection>("opening");
  const isPaused = useSignal(false);
  const filter = useSignal("");
  useEffect(
    () =>
      followLive({
        open: () => new EventSource(apiUrl("/live")),
        // Whoever is no longer signed in is led to the sign-in. Everything else is shown as a lost connection already.
        checkSession: () => void ask("/me").catch(() => undefined),
        after: (ms, then) => {
          const timer = setTimeout(then, ms);
          return () => clearTimeout(timer);
        },
        onConnection: (now) => (connection.value = now),
        onData: (data) => {
          if (!isPaused.peek()) state.value = withFrame(state.peek(), JSON.parse(data) as LiveFrameAnswer, performance.now());
        },
      }),
    [],
  );
  const rows = matching(state.value.rows, filter.value);
  return (
    <Page
      title="Live"
      about={
        <span aria-live="off">
          {count(state.value.running)} running
          {state.value.omitted > 0 && `, ${count(state.value.omitted)} not shown because there were too many`}
        </span>
      }
      actions={
        <>
          <Badge tone={connection.value === "open" ? "good" : "warn"}>{connectionTexts[connection.value]}</Badge>
          <button type="button" class="button small" aria-pressed={isPaused.value} onClick={() => (isPaused.value = !isPaused.value)}>
            {isPaused.value ? "Go on" : "Pause"}
          </button>
        </>
      }
    >
      <search class="filters">
        <TextField
          label="Filter"
          name="filter"
          type="search"
          value={filter.value}
          onText={(text) => (filter.value = text)}
          placeholder="Model, key, channel, state"
        />
      </search>
      {rows.length === 0 ? (
        <EmptyState title="Waiting for requests">
          <p>Each request appears here when it begins. Calls of other replicas are on their own consoles.</p>
        </EmptyState>
      ) : (
        <div class="table-box" tabIndex={0} role="region" aria-label="Live requests">
          <table class="live">
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Key</th>
                <th scope="col">Model</th>
                <th scope="col">Attempts</th>
                <th scope="col" class="number">
                  First
                </th>
                <th scope="col" class="number">
                  Took
                </th>
                <th scope="col" class="number">
                  Tokens
                </th>
                <th scope="col" class="number">
                  Tokens/s
                </th>
                <th scope="col" class="number">
                  Cost
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <LiveTableRow key={row.id} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}

const connectionTexts = { opening: "connecting", open: "connected", lost: "connection lost, trying again" } as const;

/** Drawn again only when its row is another object. */
class LiveTableRow extends Component<{ readonly row: LiveRow }> {
  override shouldComponentUpdate({ row }: { readonly row: LiveRow }): boolean {
    return row !== this.props.row;
  }

  override render({ row }: { readonly row: LiveRow }) {
    const hasPage = row.state !== "running" && row.state !== "refused";
    const tone = row.state === "running" ? "accent" : stateTone(row.state === "refused" ? "failed" : row.state);
    const badge = <Badge tone={tone}>{stateText(row)}</Badge>;
    return (
      <tr>
        <td>{hasPage ? <a href={pathTo("request", { id: row.id })}>{badge}</a> : badge}</td>
        <td class="shorten" title={row.key ?? ""}>
          {row.key_name ?? row.key ?? "–"}
        </td>
        <td class="shorten" title={row.model ?? ""}>
          {row.model ?? "–"}
        </td>
        <td>
          <Segments attempts={row.attempts} />
        </td>
        <td class="number">{duration(row.first_content_ms)}</td>
        <td class="number">{duration(row.took_ms)}</td>
        <td class="number">{row.output_tokens === 0 ? "–" : count(row.output_tokens)}</td>
        <td class="number">{short(tokensPerSecond(row))}</td>
        <td class="number">{money(row.cost_usd)}</td>
      </tr>
    );
  }
}

function stateText({ state, status, error }: LiveRow): string {
  if (state === "running") return "running";
  if (state === "complete") return "ok";
  return `${status ?? ""} ${error ?? state}`.trim().replaceAll("_", " ");
}
