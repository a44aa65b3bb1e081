import { chatTarget } from "./chat.ts";
import { containersTarget } from "./containers.ts";
import { httpRequestTarget } from "./http-request.ts";
import { httpResponseTarget } from "./http-response.ts";
import { jsonTarget } from "./json.ts";
import { messagesTarget } from "./messages.ts";
import { multipartTarget } from "./multipart.ts";
import { passthroughTarget } from "./passthrough.ts";
import { responsesTarget } from "./responses.ts";
import type { FuzzTarget } from "./target.ts";
import { upstreamStreamsTarget } from "./upstream-streams.ts";

/** Everything that reads bytes of others. `npm test` tries each for a moment, `npm run fuzz` for as long as it is told. */
export const fuzzTargets: readonly FuzzTarget[] = [
  jsonTarget,
  chatTarget,
  messagesTarget,
  passthroughTarget,
  responsesTarget,
  upstreamStreamsTarget,
  httpRequestTarget,
  httpResponseTarget,
  multipartTarget,
  containersTarget,
];
