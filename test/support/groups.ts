import { defaultGroup, type NewGroup } from "../../src/keys/stored-group.ts";
import { unlimited, type Limits } from "../../src/limits/limits.ts";

/** A group that limits nothing unless told otherwise. */
export function newGroup(name: string, more: Partial<Omit<NewGroup, "limits">> & { readonly limits?: Partial<Limits> } = {}): NewGroup {
  return { ...defaultGroup, name, ...more, limits: { ...unlimited, ...more.limits } };
}
