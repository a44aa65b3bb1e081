/** The names in a list of models; null if it is none. */
export function listedModels(body: string): readonly string[] | null {
  try {
    const list = JSON.parse(body) as { data?: unknown } | unknown[] | null;
    // Some compatible servers send the bare array.
    const models = Array.isArray(list) ? list : list?.data;
    if (!Array.isArray(models)) return null;
    return (models as ({ id?: unknown } | null)[]).flatMap((model) => (typeof model?.id === "string" && model.id !== "" ? [model.id] : []));
  } catch {
    return null;
  }
}
