/** Audio that cannot be read; the message is fit to be shown to whoever sent it. */
export class UndecodableAudio extends Error {
  override readonly name = "UndecodableAudio";
}
