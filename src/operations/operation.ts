/** What a client may ask for. Each has its own request, its own answer and its own codecs. */
export type Operation = "chat" | "transcription" | "speech";

export const operations: readonly Operation[] = ["chat", "transcription", "speech"];
