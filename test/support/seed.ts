import fc from "fast-check";

/**
 * Loaded before a file that states properties: the suite tries the same inputs each time, so that a run is red for what was
 * changed and for nothing else. SLUICE_TEST_SEED=N tries others, SLUICE_TEST_SEED=random others in each file.
 */
const wanted = process.env["SLUICE_TEST_SEED"] ?? "1";
const seed = wanted === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(wanted);
if (!Number.isSafeInteger(seed)) throw new Error(`SLUICE_TEST_SEED must be a whole number or "random", not ${JSON.stringify(wanted)}`);
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });
