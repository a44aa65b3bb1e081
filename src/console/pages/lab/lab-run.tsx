import type { LabRunView } from "../../../admin/views/lab-view.ts";
import { duration } from "../../core/format.ts";
import { Badge } from "../../parts/notice.tsx";
import { Segments } from "../../parts/segments.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { breakerOf, progressOf, seenBy, type TonedText } from "./lab-text.ts";

/** A run as it goes on: the channels, and each call with its attempts and what its client saw. */
export function LabRunCard({ run, expected, onStop }: LabRunCardProps) {
  return (
    <section class="card stack">
      <header>
        <h2>The run</h2>
        <span class="row">
          <Toned {...progressOf(run)} />
          {run.state === "running" && (
            <button type="button" class="button small" onClick={onStop}>
              End it
            </button>
          )}
        </span>
      </header>
      <div aria-live="polite">
        {run.as_promised === true && <p class="note-box good">As promised: {expected}</p>}
        {run.as_promised === false && (
          <div class="note-box bad">
            <div>
              <p>Not as promised. The settings in force may be the reason.</p>
              {run.broken.map((sentence) => (
                <p key={sentence}>{sentence}</p>
              ))}
            </div>
          </div>
        )}
      </div>
      <DataTable label="Channels of the run" columns={channelColumns} rows={run.channels} keyOf={({ name }) => name} />
      <DataTable label="Calls of the run" columns={callColumns} rows={run.results} keyOf={({ number }) => String(number)} />
    </section>
  );
}

interface LabRunCardProps {
  readonly run: LabRunView;
  readonly expected: string;
  readonly onStop: () => void;
}

function Toned({ tone, text }: TonedText) {
  return <Badge tone={tone}>{text}</Badge>;
}

const channelColumns: readonly TableColumn<LabRunView["channels"][number]>[] = [
  { title: "Channel", cell: ({ name }) => name },
  { title: "Behaviour", cell: ({ behaviour }) => <code>{behaviour}</code> },
  { title: "Requests", cell: ({ asked }) => asked, isNumber: true },
  { title: "State", cell: (channel) => <Toned {...breakerOf(channel)} /> },
];

const callColumns: readonly TableColumn<LabRunView["results"][number]>[] = [
  { title: "Call", cell: ({ number }) => number, isNumber: true },
  { title: "Attempts", cell: ({ attempts }) => <Segments attempts={attempts} /> },
  { title: "Failures", cell: ({ attempts }) => failuresOf(attempts), whole: ({ attempts }) => failuresOf(attempts) },
  { title: "First", cell: ({ first_content_ms }) => duration(first_content_ms), isNumber: true },
  { title: "Took", cell: ({ took_ms }) => duration(took_ms), isNumber: true },
  { title: "The client saw", cell: (call) => <Toned {...seenBy(call)} /> },
];

function failuresOf(attempts: LabRunView["results"][number]["attempts"]): string {
  const failures = attempts.flatMap(({ channel, error, outcome }) =>
    outcome === "failed" && error !== null ? [`${channel}: ${error.replaceAll("_", " ")}`] : [],
  );
  return failures.length === 0 ? "–" : failures.join(", ");
}
