import { ago, moment, wholeMoment } from "../core/format.ts";

export function Moment({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={wholeMoment(at)} class="nowrap">
      {moment(at)}
    </time>
  );
}

export function Ago({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="muted">never</span>;
  return (
    <time dateTime={at} title={wholeMoment(at)} class="nowrap">
      {ago(at)}
    </time>
  );
}
