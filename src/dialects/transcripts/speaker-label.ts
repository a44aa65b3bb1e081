/** What clients call the speakers that an upstream numbers: A, B, …, Z, AA, … Null where it told none apart. */
export function speakerLabel(speaker: unknown): string | null {
  if (typeof speaker === "string") {
    const number = /^speaker_(\d{1,4})$/.exec(speaker)?.[1];
    return number === undefined ? speaker.slice(0, nameLengthMax) || null : speakerLabel(Number(number));
  }
  if (typeof speaker !== "number" || !Number.isInteger(speaker) || speaker < 0 || speaker > numberMax) return null;
  const last = String.fromCharCode(65 + (speaker % 26));
  return speaker < 26 ? last : `${speakerLabel(Math.floor(speaker / 26) - 1)}${last}`;
}

const numberMax = 9999;
const nameLengthMax = 200;
