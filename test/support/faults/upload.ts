import { jsonType } from "../chaos/answer.ts";
import { refuse } from "./refusal.ts";
import { numberFrom, type Faults } from "./fault.ts";

/**
 * Faults in the middle of an upload, after so many bytes of its body. They are decided on before the body is read, so they
 * work by `behaviour` and `script` only and not by the model's name, and stand alone.
 */
export const uploadFaults: Faults = {
  /** `bytes` */
  "upload-rst": (exchange) => exchange.reset(),
  "upload-close": (exchange) => exchange.cut(),
  /** `bytes,ms`: reads no more and says nothing, for so long. */
  async "upload-stall"(exchange, argument) {
    const [, ms = ""] = argument.split(",");
    await exchange.stopReading(numberFrom(ms, 1_000));
    await exchange.hold();
  },
  /** `bytes,status`: answers before it has heard all of it, and takes the rest without a look. */
  async "upload-status"(exchange, argument) {
    const [, status = ""] = argument.split(",");
    await refuse(exchange, numberFrom(status, 413));
  },
  /** `bytes,status`: the same, with a reset behind the answer. */
  async "upload-status-rst"(exchange, argument) {
    const [, status = ""] = argument.split(",");
    const body = Buffer.from(JSON.stringify({ error: { message: "Too much.", type: "server_error", param: null, code: null } }));
    await exchange.open({ status: numberFrom(status, 413), contentType: jsonType, length: body.length });
    await exchange.sendBody(body);
    await exchange.reset();
  },
};

/** How many bytes of a body are read before such a fault; null for any other behaviour. */
export function uploadedBytes(behaviour: string): number | null {
  const [, name = "", bytes = ""] = /^fault:(upload-[a-z-]+)@(\d+)/.exec(behaviour) ?? [];
  return name in uploadFaults ? Number(bytes) : null;
}
