/** What an engine may know of ours: enough to run, and no provider's key. */
export function engineEnvironment(own: Readonly<Record<string, string | undefined>>): Record<string, string> {
  // The library that runs Whisper would report to its maker and leave files in the home folder.
  const environment: Record<string, string> = { ORT_DISABLE_TELEMETRY: "1" };
  for (const name of passedOn) {
    const value = own[name];
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}

const passedOn = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "SLUICE_ENGINE_NICENESS"];
