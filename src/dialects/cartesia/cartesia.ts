import type { Dialect } from "../dialect.ts";
import { cartesiaSpeech } from "./speech.ts";

/** Cartesia. */
export const cartesia: Dialect = {
  name: "cartesia",
  speech: cartesiaSpeech,
};
