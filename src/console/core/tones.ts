/** The colour that a state is shown in. */
export type Tone = "" | "good" | "warn" | "bad";

export function stateTone(state: string): Tone {
  switch (state) {
    case "complete":
    case "ready":
    case "active":
    case "answered":
      return "good";
    case "impaired":
    case "interrupted":
    case "expired":
    case "half_open":
      return "warn";
    case "failed":
    case "cooling":
    case "revoked":
    case "open":
      return "bad";
    default:
      return "";
  }
}
