import { eventually } from "../eventually.ts";
import type { ChaosRequest } from "./request.ts";
import type { Upload } from "./upload.ts";

/** What the upstream knows to be true, whatever the gateway says: who connected, what was asked, what was sent. */
export class Ledger {
  readonly attempts: Attempt[] = [];
  readonly connections: Connection[] = [];

  /** The attempts at a chat completion, a transcription or speech, without calls for the list of models. */
  get chats(): readonly Attempt[] {
    return this.attempts.filter((attempt) => attempt.method === "POST");
  }

  get connectionsAccepted(): number {
    return this.connections.length;
  }

  get connectionsOpen(): number {
    return this.connections.filter((connection) => connection.closedAt === null).length;
  }

  /** The attempts that carried this value in the body's `x_call`. */
  ofCall(call: string): readonly Attempt[] {
    return this.chats.filter((attempt) => attempt.call === call);
  }

  /** How many have connected since a moment of `performance.now()` of whom a request was not read whole. */
  unreadSince(sinceMs: number): number {
    const isUnread = ({ requests, closedOnReuse }: Connection): boolean => requests === 0 || closedOnReuse;
    return this.connections.filter((connection) => connection.acceptedAt >= sinceMs && isUnread(connection)).length;
  }

  /** Resolves when every attempt so far has ended. */
  async settled(withinMs = 5_000): Promise<void> {
    const running = () => this.attempts.filter((attempt) => attempt.endedBy === null);
    await eventually("every attempt has ended", () => running().length === 0, withinMs);
  }
}

/** One request to the upstream and the answer it got. */
export interface Attempt extends ChaosRequest {
  /** The instance's name and a number, such as `a7`; healthy tokens are tagged with it. */
  readonly id: string;
  readonly connection: number;
  /** When the request had arrived whole, on the clock of `performance.now()`. */
  readonly at: number;
  readonly model: string | null;
  /** The body's `x_call`: which client call this attempt belongs to. */
  readonly call: string | null;
  readonly streamed: boolean;
  /** The form that came in place of a body, which is then not kept: uploads are large. */
  readonly upload: Upload | null;
  readonly behaviour: string;
  /** The text of the first choice, piece by piece as handed to the socket. Joined, it is the text that was sent. */
  readonly tokensSent: string[];
  /** The same for every choice. */
  readonly choicesSent: string[][];
  /** How many deltas of reasoning it had besides. */
  thoughtsSent: number;
  /** The audio of the answer, piece by piece as handed to the socket. */
  readonly audioSent: Uint8Array[];
  /** What the answer reported as usage, as JSON text; null when it reported none. */
  usageSent: string | null;
  /** Null where it came to no head. */
  statusSent: number | null;
  bytesSent: number;
  /** When the last of them left; null while none has. */
  lastSentAt: number | null;
  /** `complete`: answered whole. `fault`: broken off by us. `client_closed`: the peer left. Null: still running. */
  endedBy: "complete" | "client_closed" | "fault" | null;
  closedAt: number | null;
}

export interface Connection {
  readonly number: number;
  readonly acceptedAt: number;
  closedAt: number | null;
  requests: number;
  /** Closed by us in the moment the next request began to arrive. */
  closedOnReuse: boolean;
}
