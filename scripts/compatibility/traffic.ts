/**
 * What a pair sends to its upstream and tells its client while its cells are played: each shape once, for the test that compares
 * them with the types of the providers (`test/types`).
 */
export class Traffic {
  private readonly shapes = new Map<string, TrafficItem>();

  add(form: TrafficForm, value: unknown): void {
    const shape = `${form} ${JSON.stringify(value, shapeOnly)}`;
    if (!this.shapes.has(shape)) this.shapes.set(shape, { form, value });
  }

  get items(): readonly TrafficItem[] {
    return [...this.shapes.values()];
  }
}

/** A request to an upstream; an answer to a client, whole or an event of a stream; an error, as a body or inside a stream. */
export type TrafficForm = "request" | "whole" | "event" | "error" | "errorEvent";

export interface TrafficItem {
  readonly form: TrafficForm;
  readonly value: unknown;
}

/** Texts and figures make no difference to a type; short words do, such as a role. */
function shapeOnly(_: string, value: unknown): unknown {
  if (typeof value === "number") return 0;
  return typeof value === "string" && !/^[A-Za-z][a-z_.]{0,40}$|^[A-Z_]{1,40}$/.test(value) ? "-" : value;
}
