/**
 * What .ci/run installs for tests that are skipped without it. It names in SLUICE_TEST_TOOLS, with spaces between, what could be installed:
 * then a test that does not find it fails, so that none is skipped for good because a program got another name.
 */
export const testTools = ["agents", "chromium", "deploy", "faketime", "proxies", "python", "telemetry"] as const;
export type TestTool = (typeof testTools)[number];

/** What was found, or null where the test that needs it is skipped. Throws where nothing was found although it was installed. */
export function foundOrSkipped<Found>(tool: TestTool, what: string, found: Found | null, installed = installedTools()): Found | null {
  if (found === null && installed.has(tool))
    throw new Error(`SLUICE_TEST_TOOLS says that ${tool} is installed, but there is no ${what}: its tests would be skipped`);
  return found;
}

export function installedTools(given: string = process.env["SLUICE_TEST_TOOLS"] ?? ""): ReadonlySet<TestTool> {
  const names = given.split(" ").filter((name) => name !== "");
  const unknown = names.filter((name) => !testTools.some((tool) => tool === name));
  if (unknown.length > 0) throw new Error(`SLUICE_TEST_TOOLS takes ${testTools.join(", ")}, not ${unknown.join(", ")}`);
  return new Set(names as TestTool[]);
}
