import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { checked } from "../support/deploy-tools.ts";
import { foundOrSkipped } from "../support/test-tools.ts";

setDefaultTimeout(120_000);

const place = join(root, ".venv/telemetry/bin/python");
const python = foundOrSkipped("telemetry", "Python in .venv/telemetry", existsSync(place) ? place : null);

test.skipIf(python === null)(
  "the libraries of Prometheus, OpenTelemetry and Standard Webhooks read metrics, traces and webhooks, and know the names that are not ours (bin/install-telemetry-parsers)",
  () => {
    // The tests of clients beside it share a fixture that asks for a gateway.
    const pytest = [python ?? "", "-B", "-m", "pytest", "--quiet", "--noconftest", "-p", "no:cacheprovider"];
    const { code, said } = checked([...pytest, "test/python/test_telemetry.py"]);
    expect([code, /(\d+) passed/.exec(said)?.[1]], said).toEqual([0, "7"]);
  },
);
