import { isFailure } from "../../src/operations/failure.ts";
import { skimObject } from "../../src/operations/json-skim.ts";
import { scanJson } from "../../src/operations/json.ts";
import type { PassthroughOperation } from "../../src/operations/operation.ts";
import { readPassthroughRequest } from "../../src/operations/passthrough/passthrough-request.ts";
import type { FuzzTarget } from "./target.ts";

const operations: readonly PassthroughOperation[] = ["embedding", "completion", "moderation", "image", "rerank"];

/** Whatever a client or an upstream writes is a request, an answer or a mistake; a skimmed object has the members that a scan finds. */
export const passthroughTarget: FuzzTarget = {
  name: "passthrough",
  seeds: [
    '{"model":"m","input":["a","b"],"dimensions":2}',
    '{"model":"m","prompt":[[1,2],[3]],"suffix":"s","n":2,"best_of":3,"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}',
    '{"model":"m","prompt":"p","n":1,"query":"q","documents":["a",{"text":"b"}]}',
    '{"object":"list","data":[{"embedding":[0.1,-2e3]},{"embedding":"AAA\\\\\\""}],"usage":{"total_tokens":3}}',
  ],
  words: ['"model":', '"input":', '"prompt":', '"n":', '"stream":', '"query":', "null", "[]", "{}", "-1", "1e999", '""', "\\", '"', "[[[["],
  check: (input) => {
    const read = operations.map((operation) => {
      const ask = readPassthroughRequest(operation, input);
      return isFailure(ask) ? `${ask.param} ${ask.code}` : `${ask.choices > 1} ${ask.stream}`;
    });
    const skimmed = skimObject(input);
    const scan = scanJson(input);
    if (scan.ok && scan.kind === "object" && scan.members.length < 1000 && JSON.stringify(skimmed) !== JSON.stringify(scan.members))
      throw new Error(`a skim finds ${JSON.stringify(skimmed)} where a scan finds ${JSON.stringify(scan.members)}`);
    return [...read, skimmed === null ? "none" : "object"].join(";");
  },
};
