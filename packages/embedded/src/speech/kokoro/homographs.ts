/**
 * Pronounces the most common homographs by the words before and after them. `null` if the word is not one of them.
 */
export function byNeighbours(word: string, before: string, after: string): string | null {
  const isNoun = determiners.has(before) || after === "of";
  switch (word) {
    case "use":
      return isNoun ? "jˈus" : "jˈuz";
    case "uses":
      return isNoun ? "jˈusᵻz" : "jˈuzᵻz";
    case "used":
      return after === "to" && !/^(?:is|are|was|were|be|been|being)$/.test(before) ? "jˈust" : "jˈuzd";
    case "read":
      return /^(?:have|has|had|having|was|were|is|are|been|be|being|i've|he's|she's|we've|they've|you've)$/.test(before) ? "ɹˈɛd" : "ɹˈid";
    case "close":
      return /^(?:so|very|too|as|is|are|was|were|be|quite|pretty|stay|come|came)$/.test(before) || /^(?:to|by)$/.test(after)
        ? "klˈOs"
        : "klˈOz";
    case "lead":
      return /^(?:pipe|pipes|paint|poisoning|acid)$/.test(after) ? "lˈɛd" : "lˈid";
    case "wind":
      return /^(?:to|will|would|can)$/.test(before) || after === "up" ? "wˈInd" : "wˈɪnd";
    case "tear":
      return /^(?:to|will|would|can|could|don't)$/.test(before) || /^(?:up|down|apart|off)$/.test(after) ? "tˈɛɹ" : "tˈɪɹ";
    case "wound":
      return /^(?:up|down|around)$/.test(after) ? "wˈWnd" : "wˈund";
    default:
      return null;
  }
}

const determiners: ReadonlySet<string> = new Set(
  "a an the of in for no this that any its their his her my our your other another first daily common good personal public".split(" "),
);
