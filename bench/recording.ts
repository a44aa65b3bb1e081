/** The sound the bench works with. It is made, not stored, and the same in every run. */
export const recordingRate = 24_000;

/**
 * Something between a voice and a buzzer: a pitch that glides, three resonances that move with every syllable, a hiss
 * between them and a rest after each phrase. Codecs work on it about as hard as on speech, which they would not on a tone.
 */
export function voice(seconds: number): Float32Array {
  const samples = new Float32Array(Math.round(seconds * recordingRate));
  const noise = noiseSource(1);
  const resonances = [resonance(), resonance(), resonance()];
  let phase = 0;
  for (let index = 0; index < samples.length; index += 1) {
    const time = index / recordingRate;
    const syllable = Math.floor(time * syllablesPerSecond);
    const within = time * syllablesPerSecond - syllable;
    phase += (115 + 25 * Math.sin(time * 2.1) + 10 * Math.sin(time * 7)) / recordingRate;
    const pulse = phase >= 1 ? 1 : 0;
    phase -= pulse;
    const hiss = noise() * (within < 0.2 ? 0.15 : 0.01);
    const loudness = syllable % 9 === 8 ? 0 : Math.sin(Math.PI * within);
    const source = (pulse + hiss) * loudness;
    let sum = 0;
    resonances.forEach((filter, number) => {
      sum += filter(source, [500, 1500, 2600][number]! * (1 + 0.25 * Math.sin(syllable * (number + 1.3)))) / (number + 1);
    });
    samples[index] = Math.max(-1, Math.min(1, sum * 0.5 + noise() * 0.0005));
  }
  return samples;
}

export function pcmOf(samples: Float32Array): Buffer {
  const bytes = Buffer.alloc(samples.length * 2);
  samples.forEach((sample, index) => bytes.writeInt16LE(Math.round(sample * 32_767), index * 2));
  return bytes;
}

export const mp3FrameBytes = 384;
export const mp3FrameSamples = 576;

/** Frames with a true head (MPEG 2 layer III, 24 kHz, mono, 128 kbit/s) and noise in it: to be passed on, not to be decoded. */
export function mp3Frames(count: number): Buffer {
  const bytes = noiseBytes(count * mp3FrameBytes);
  for (let frame = 0; frame < count; frame += 1) bytes.writeUInt32BE(0xff_f3_c4_c4, frame * mp3FrameBytes);
  return bytes;
}

/** A wav file of this size, to be carried and not to be listened to. */
export function noiseWave(fileBytes: number): Buffer {
  const bytes = noiseBytes(fileBytes);
  waveHead(fileBytes - waveHeadBytes).copy(bytes);
  return bytes;
}

export function waveOf(pcm: Uint8Array): Buffer {
  return Buffer.concat([waveHead(pcm.length), pcm]);
}

const waveHeadBytes = 44;

function waveHead(dataBytes: number): Buffer {
  const head = Buffer.alloc(waveHeadBytes);
  head.write("RIFF", 0, "latin1");
  head.writeUInt32LE(dataBytes + waveHeadBytes - 8, 4);
  head.write("WAVEfmt ", 8, "latin1");
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(recordingRate, 24);
  head.writeUInt32LE(recordingRate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36, "latin1");
  head.writeUInt32LE(dataBytes, 40);
  return head;
}

const syllablesPerSecond = 4.5;

/** A two-pole filter that rings at the frequency it is told, some 80 Hz wide. */
function resonance(): (input: number, hertz: number) => number {
  const radius = Math.exp((-Math.PI * 80) / recordingRate);
  let last = 0;
  let beforeLast = 0;
  return (input, hertz) => {
    const output = input + 2 * radius * Math.cos((2 * Math.PI * hertz) / recordingRate) * last - radius * radius * beforeLast;
    beforeLast = last;
    last = output;
    return output * 0.2;
  };
}

function noiseBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  const next = noiseNumbers(1);
  let at = 0;
  for (; at + 4 <= length; at += 4) bytes.writeInt32LE(next(), at);
  for (; at < length; at += 1) bytes[at] = next() & 0xff;
  return bytes;
}

/** From -1 to 1. */
function noiseSource(seed: number): () => number {
  const next = noiseNumbers(seed);
  return () => next() / 0x80_00_00_00;
}

/** Marsaglia's xorshift: 32 bits a turn, the same for the same seed. */
function noiseNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state;
  };
}
