/** A transcoder that is gone or never was, through no fault of the audio: its worker was lost or got stuck, or a codec failed. */
export class TranscoderLost extends Error {
  override readonly name = "TranscoderLost";
}
