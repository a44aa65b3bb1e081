import type { ComponentChildren } from "preact";
import type { RequestAnswer } from "../../core/answers.ts";
import { amount, duration, money } from "../../core/format.ts";
import { pathTo, place } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { stateTone } from "../../core/tones.ts";
import { causeText, storyOf, verdictText } from "../../../usage/call-story.ts";
import { CopyButton } from "../../parts/copy.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Waterfall } from "./waterfall.tsx";

/** One call: what happened in one sentence, its attempts over time, and why each candidate was asked or not. */
export function RequestPage() {
  const id = place.value.params["id"] ?? "";
  const loaded = useLoaded<RequestAnswer>(`/requests/${encodeURIComponent(id)}`);
  const request = loaded.data.value;
  return (
    <Page
      title="Request"
      about={<span class="mono">{id}</span>}
      actions={
        <>
          <CopyButton text={id} what="Copy the id" />
          <a class="button small" href={pathTo("requests")}>
            All requests
          </a>
        </>
      }
    >
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {request !== null && <RequestDetails request={request} />}
    </Page>
  );
}

export function RequestDetails({ request }: { readonly request: RequestAnswer }) {
  return (
    <>
      <section class="card">
        <header>
          <h2>{storyOf(request)}</h2>
          <Badge tone={stateTone(request.state)}>
            {request.state} {request.status}
          </Badge>
        </header>
        <Facts request={request} />
      </section>
      <section class="card">
        <header>
          <h2>Attempts</h2>
          <span class="small muted">
            first content after {duration(request.first_content_ms)}, all after {duration(request.took_ms)}
          </span>
        </header>
        <Waterfall request={request} />
      </section>
      <Plan request={request} />
      {request.namesakes.length > 0 && (
        <section class="card">
          <header>
            <h2>Other calls with this request id</h2>
          </header>
          <ul class="stack">
            {request.namesakes.map((other) => (
              <li key={other}>
                <a class="mono" href={pathTo("request", { id: other })}>
                  {other}
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Facts({ request }: { readonly request: RequestAnswer }) {
  const { delivered } = request;
  return (
    <dl class="facts">
      <Fact name="Started">
        <Moment at={request.started_at} />
      </Fact>
      <Fact name="Key">
        <a href={pathTo("key", { id: request.key })}>{request.key_name ?? request.key}</a>
      </Fact>
      <Fact name="Operation">
        {request.operation}
        {request.stream ? ", streamed" : ""}
      </Fact>
      <Fact name="Model">{request.model}</Fact>
      <Fact name="Answered by">{request.channel === null ? "nobody" : `${request.channel} (${request.upstream_model ?? ""})`}</Fact>
      <Fact name="Used">{amount(delivered)}</Fact>
      {delivered.cached_tokens !== null && delivered.cached_tokens > 0 && (
        <Fact name="Of it from the cache">{delivered.cached_tokens}</Fact>
      )}
      {delivered.reasoning_tokens !== null && delivered.reasoning_tokens > 0 && (
        <Fact name="Of it reasoning">{delivered.reasoning_tokens}</Fact>
      )}
      <Fact name="Cost">
        {money(request.billed_usd)}
        {request.cost_uncertain ? " or more" : ""}
        {request.estimated ? ", estimated" : ""}
      </Fact>
      {request.hedge_waste_usd > 0 && <Fact name="Of it for hedges that lost">{money(request.hedge_waste_usd)}</Fact>}
      {request.error !== null && <Fact name="Error">{request.error}</Fact>}
      {request.warning !== null && <Fact name="Warning">{request.warning}</Fact>}
      {request.partial && <Fact name="Answer">incomplete</Fact>}
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Plan({ request }: { readonly request: RequestAnswer }) {
  const { plan } = request;
  return (
    <section class="card">
      <header>
        <h2>Why it went this way</h2>
      </header>
      {plan === null ? (
        <p class="muted">There was only one way to answer this call.</p>
      ) : (
        <ol class="steps">
          {plan.map((step, at) => (
            <li key={at}>
              <span>
                <strong>{step.channel}</strong>
                {step.tier !== null && <span class="small muted"> tier {step.tier}</span>}
              </span>
              <span>
                {verdictText(step.verdict)}
                {step.cause !== null && `: ${causeText(step.cause)}`}
                {step.for_ms !== null && `, for another ${duration(step.for_ms)}`}
                <span class="small muted"> {step.model}</span>
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
