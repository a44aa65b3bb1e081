import type { Failure } from "../../operations/failure.ts";
import type { ErrorResponse } from "../dialect.ts";
import { errorBody } from "../errors/error-body.ts";
import { explain } from "../errors/explain.ts";

/** The class of an error is in a header, up to the first colon; the body has no more than a message. */
export function explainAws(response: ErrorResponse): Failure {
  const [type = ""] = (response.header("x-amzn-errortype") ?? "").split(":", 1);
  const { message, form } = errorBody(response.body);
  if (type === "" || form === "markup") return explain(response);
  return explain({ ...response, body: JSON.stringify({ message, type }) });
}
