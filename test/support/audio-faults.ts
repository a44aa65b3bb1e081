import { slowedSettingMs } from "./slowed.ts";
/** What may go wrong before the first content of an answer, and what a client is told of it where nobody else is left. */
export interface EarlyFault {
  readonly behaviour: string;
  readonly status: number;
  readonly code: string | null;
}

const timeout = { status: 504, code: "upstream_timeout" };
const gone = { status: 502, code: "upstream_disconnected" };
const nonsense = { status: 502, code: "upstream_invalid_response" };
const failing = { status: 502, code: "upstream_error" };
const credential = { status: 502, code: "upstream_auth_failed" };
const limited = { status: 429, code: "rate_limit_exceeded" };

/** Of any operation. */
export const earlyFaults: readonly EarlyFault[] = [
  { behaviour: "fault:silent", ...timeout },
  { behaviour: "fault:hang-after-headers", ...timeout },
  { behaviour: `fault:slow-headers@${slowedSettingMs(30)}`, ...timeout },
  { behaviour: "fault:close-before-headers", ...gone },
  { behaviour: "fault:rst-before-headers", ...gone },
  { behaviour: "fault:rst-mid-headers", ...gone },
  { behaviour: "fault:rst-before-content", ...gone },
  { behaviour: "fault:fin-chunked-after@0", ...gone },
  { behaviour: "fault:status@401", ...credential },
  { behaviour: "fault:status@403", ...credential },
  { behaviour: "fault:leak-key@401", ...credential },
  { behaviour: "fault:insufficient-quota", ...credential },
  { behaviour: "fault:status@404", status: 502, code: "upstream_model_missing" },
  { behaviour: "fault:status@500", ...failing },
  { behaviour: "fault:status-html@502", ...failing },
  { behaviour: "fault:status-empty@599", ...failing },
  { behaviour: "fault:status@503", status: 503, code: "upstream_unavailable" },
  { behaviour: "fault:status@529", status: 503, code: "upstream_unavailable" },
  { behaviour: "fault:rate-limit@retry-after=7", ...limited },
  { behaviour: "fault:rate-limit", ...limited },
  { behaviour: "fault:redirect@307,http://127.0.0.1:9/", status: 502, code: "upstream_redirect" },
  { behaviour: "fault:unsolicited-101", status: 502, code: "upstream_misconfigured" },
  { behaviour: "fault:error-in-200@502", ...failing },
  { behaviour: "fault:error-in-200@401", ...credential },
  { behaviour: "fault:html-200", ...nonsense },
  { behaviour: "fault:empty-200", ...nonsense },
  { behaviour: "fault:null-200", ...nonsense },
  { behaviour: "fault:204", ...nonsense },
  { behaviour: "fault:garbage", ...nonsense },
  { behaviour: "fault:h2-preface", ...nonsense },
  { behaviour: "fault:tls-bytes", ...nonsense },
  { behaviour: "fault:bad-chunk-size", ...nonsense },
  { behaviour: "fault:chunk-size-overflow", ...nonsense },
  { behaviour: "fault:huge-headers@70000", ...nonsense },
  { behaviour: "fault:unknown-encoding", ...nonsense },
  { behaviour: "fault:false-gzip", ...nonsense },
];

export const audioTimeouts = {
  connect: `${slowedSettingMs(500)}ms`,
  first_byte: `${slowedSettingMs(1_800)}ms`,
  first_content: `${slowedSettingMs(1_800)}ms`,
  idle: `${slowedSettingMs(1_400)}ms`,
  progress: `${slowedSettingMs(1_800)}ms`,
  total: `${slowedSettingMs(8_000)}ms`,
};
