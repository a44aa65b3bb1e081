import { readDocument } from "../../config/document.ts";
import { settingsFromEnvironment } from "../../config/environment.ts";
import { explainedSettings, type ExplainedSetting } from "../../config/explain/explain.ts";
import { readFileText } from "../../config/file-text.ts";
import { renderProblem } from "../../config/findings/problem.ts";
import { withSecretFiles, type Environment } from "../../config/interpolate.ts";
import { readSecretFile } from "../../config/load.ts";
import { localModels } from "../../engines/catalog.ts";

export interface ExplainedConfigurationFile {
  readonly file: string | null;
  /** Why the file cannot be used as it is now; null if it can. */
  readonly problem: string | null;
  readonly settings: readonly ExplainedSetting[];
}

/** Every setting with its origin. The file was read before and was valid; it may have changed since. */
export async function explainedConfiguration(file: string | null, env: Environment): Promise<ExplainedConfigurationFile> {
  if (file === null) {
    const found = settingsFromEnvironment({
      env,
      nofile: 1024,
      localModels: await localModels(),
      readSecretFile,
      checksCertificate: false,
    });
    return { file, problem: null, settings: found.ok ? explainedSettings(found.document, env) : [] };
  }
  const text = await readFileText(file);
  const variables = typeof text === "string" ? withSecretFiles(text, env, readSecretFile) : env;
  const document = typeof text === "string" ? await readDocument(text, variables) : { problems: [text] };
  if (!("problems" in document)) return { file, problem: null, settings: explainedSettings(document, variables) };
  return { file, problem: document.problems.map((problem) => renderProblem(file, problem)).join("\n"), settings: [] };
}
