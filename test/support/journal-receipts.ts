import type { ReceiptOpening, Receipt } from "../../src/usage/receipt.ts";

/** A receipt of a call that went well, but for what is said otherwise. */
export function sampleReceipt(other: Partial<Receipt> = {}): Receipt {
  const id = other.id ?? Bun.randomUUIDv7();
  return {
    id,
    requestId: `req-${id}`,
    keyId: "key-1",
    operation: "chat",
    model: "model-1",
    channel: "channel-1",
    upstreamModel: "upstream-model-1",
    stream: true,
    status: 200,
    state: "complete",
    error: null,
    startedMs: Date.UTC(2026, 0, 31, 14, 5),
    tookMs: 1_234,
    firstContentMs: 345,
    delivered: { promptTokens: 10, cachedTokens: 2, completionTokens: 20, reasoningTokens: 5, audioSeconds: null, characters: null },
    generatedTokens: 25,
    billedNanos: 1_000,
    hedgeWasteNanos: 0,
    costUncertain: false,
    estimated: false,
    partial: false,
    warning: null,
    finish: null,
    cacheSavedNanos: null,
    owners: [],
    channelTags: [],
    attempts: [
      {
        channel: "channel-1",
        model: "upstream-model-1",
        afterMs: 1,
        tookMs: 1_230,
        outcome: "answered",
        status: 200,
        error: null,
        blame: null,
        hedge: false,
        nanos: 1_000,
        costUncertain: false,
        estimated: false,
        promptTokens: 10,
        cachedTokens: 2,
        completionTokens: 20,
        reasoningTokens: 5,
        audioSeconds: null,
        characters: null,
      },
    ],
    plan: null,
    ...other,
  };
}

export function sampleOpening(other: Partial<ReceiptOpening> = {}): ReceiptOpening {
  const id = other.id ?? Bun.randomUUIDv7();
  return {
    id,
    requestId: `req-${id}`,
    keyId: "key-1",
    operation: "chat",
    model: "model-1",
    stream: true,
    startedMs: Date.UTC(2026, 0, 31, 14, 5),
    promptTokens: 10,
    audioSeconds: null,
    characters: null,
    nanos: 700,
    owners: [],
    ...other,
  };
}
