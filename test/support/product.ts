import { resolve } from "node:path";

/**
 * The program under test, for `sh`: as the suite bundled it (scripts/build/test-product.ts), or from source where a file is run by itself.
 * Tests of how it is started from source name bin/sluice.
 */
export const product: string = process.env["SLUICE_TEST_PRODUCT"] ?? resolve(import.meta.dir, "../../bin/sluice");
