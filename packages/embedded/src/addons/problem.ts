/** Why an add-on was not added. The message is for whoever typed the command, and says what to do. */
export interface AddProblem {
  readonly kind: "platform" | "busy" | "no_npm" | "unavailable" | "differs" | "no_space" | "files" | "interrupted";
  readonly message: string;
}

export function problem(kind: AddProblem["kind"], message: string): AddProblem {
  return { kind, message };
}

export function isProblem(value: unknown): value is AddProblem {
  return typeof value === "object" && value !== null && "kind" in value && "message" in value && !(value instanceof Error);
}
