export { chat, openChat, readChat, type ChatCall, type ChatOptions, type ChatReply } from "./chat.ts";
export { RawConnection } from "./raw-connection.ts";
export { openRequest, rawRequest, type RawCall, type RawOptions } from "./raw-request.ts";
export { RawResponse } from "./raw-response.ts";
export { sseEvents, type SseEvents } from "./sse-events.ts";
