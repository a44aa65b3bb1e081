import { failure, type Failure } from "../../operations/failure.ts";

/** What an upstream of another API cannot do. It is no mistake of the client: a channel that speaks this API may be able to. */
export function unsupported(param: string, message: string): Failure {
  return failure("unsupported", `'${param}' has no equivalent in the upstream's API`, { message, param, code: "unsupported_parameter" });
}
