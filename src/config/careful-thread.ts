import { parentPort, workerData } from "node:worker_threads";
import { carryOut } from "./careful-order.ts";
import type { CarefulOrder } from "./careful-order.ts";

/* Reads one text, says what it found, and ends. */
parentPort?.postMessage(carryOut(workerData as CarefulOrder), []);
