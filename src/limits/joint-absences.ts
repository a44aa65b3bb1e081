/** Those that cannot reach the shared counts, as they tell each other by another way. */
export interface DistributedAbsences {
  /** This process is without the counts, for so long unless it says so again. */
  note(member: string, forMs: number): Promise<void>;
  /** It has them again. */
  end(member: string): Promise<void>;
  /** Who is without them now. */
  read(): Promise<readonly string[]>;
}
