import type { Claim, ReservationRequest, SlotClaim } from "./rate-limit-store.ts";

/** A need that is written down, claim by claim. */
export class ListedReservationRequest implements ReservationRequest {
  constructor(
    private readonly list: readonly Claim[],
    readonly room: SlotClaim | null,
  ) {}

  get claims(): number {
    return this.list.length;
  }

  get call(): string {
    return this.room?.call ?? "";
  }

  id(at: number): string {
    return this.list[at]!.id;
  }

  limit(at: number): number {
    return this.list[at]!.limit;
  }

  amount(at: number): number {
    return this.list[at]!.amount;
  }
}

export function claimsOf(need: ReservationRequest): readonly Claim[] {
  return Array.from({ length: need.claims }, (_, at) => ({ id: need.id(at), limit: need.limit(at), amount: need.amount(at) }));
}

export function placeOf({ room, call }: ReservationRequest): SlotClaim | null {
  return room === null ? null : { id: room.id, limit: room.limit, call };
}
