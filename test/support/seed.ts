import fc from "fast-check";
import { numRuns } from "./properties.ts";

/**
 * Loaded before a file that states properties: the suite tries the same inputs each time, so that a run is red for what was
 * changed and for nothing else. SLUICE_TEST_SEED=N tries others, SLUICE_TEST_SEED=random others in each file.
 */
const wanted = process.env["SLUICE_TEST_SEED"] ?? "1";
const seed = wanted === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(wanted);
if (!Number.isSafeInteger(seed)) throw new Error(`SLUICE_TEST_SEED must be a whole number or "random", not ${JSON.stringify(wanted)}`);
// Where a property does not say how often it is tried: half as often as usual, so that a developer waits for less; CI tries all.
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed, numRuns: numRuns(50) });
