/** A complete WAV file of 16 bit samples. */
export function wavFile(samples: Int16Array, sampleRate: number): Uint8Array {
  const bytes = new Uint8Array(wavHeaderBytes + samples.length * 2);
  const view = new DataView(bytes.buffer);
  const write = (at: number, text: string): void => bytes.set(new TextEncoder().encode(text), at);
  write(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, samples.length * 2, true);
  for (let index = 0; index < samples.length; index++) view.setInt16(wavHeaderBytes + index * 2, samples[index]!, true);
  return bytes;
}

export const wavHeaderBytes = 44;
