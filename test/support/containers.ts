/**
 * Containers of sound in a few hundred bytes. Whatever counts something in them can be made to lie: `lies` says by the name of a
 * table what its number of entries shall be instead of the true one.
 */
export type Lies = Readonly<Record<string, number>>;

/** An M4A with two packets of Opus, and every table that such a file may have. */
export function m4a(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const packet = opusPacket;
  const make = (dataAt: number): Buffer => {
    const tables = box("stbl", [
      table("stsd", [soundEntry("Opus", [opusFacts])], lies),
      table("stts", [u32(lies["stts.samples"] ?? 2, 1024)], lies),
      table("ctts", [u32(lies["ctts.samples"] ?? 2, 0)], lies),
      table("stsc", [u32(1, lies["stsc.samples"] ?? 2, 1)], lies),
      full("stsz", u32(lies["stsz.size"] ?? 0, lies["stsz"] ?? 2, packet.length, packet.length)),
      table("stco", [u32(dataAt)], lies),
      table("stss", [u32(1)], lies),
      table("sbgp", [u32(2, 1)], lies),
    ]);
    return Buffer.concat([box("ftyp", [Buffer.from("M4A \0\0\0\0M4A mp42isom", "latin1")]), movie(tables, [], lies)]);
  };
  const head = make(0).length + 8;
  return Uint8Array.from(Buffer.concat([make(head), box("mdat", [packet, packet])]));
}

/** An MP4 in fragments: the run in the fragment says how many packets it has, and not of each how long it is. */
export function fragmentedMp4(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const packet = opusPacket;
  const tables = box("stbl", [table("stsd", [soundEntry("Opus", [opusFacts])], lies), full("stsz", u32(0, 0))]);
  const extended = box("mvex", [full("trex", u32(1, 1, 1024, packet.length, 0))]);
  const make = (offset: number): Buffer =>
    box("moof", [
      full("mfhd", u32(1)),
      box("traf", [
        full("tfhd", u32(1), 0x02_0000),
        full("trun", u32(lies["trun"] ?? 2, offset), 1),
        full("senc", u32(lies["senc"] ?? 0)),
        full("saiz", u32(lies["saiz"] ?? 0)),
      ]),
    ]);
  const random = box("mfra", [full("tfra", u32(1, 0, lies["tfra"] ?? 0))]);
  const fragment = make(make(0).length + 8);
  const parts = [box("ftyp", [Buffer.from("isom\0\0\0\0isom")]), movie(tables, [extended], lies), fragment];
  return Uint8Array.from(Buffer.concat([...parts, box("mdat", [packet, packet]), random]));
}

/** FLAC in an MP4, of which an edit leaves out hours: there is much to decode, and none of it is given. */
export function leftOutMp4(flac: Uint8Array, sampleRate: number, seconds: number): Uint8Array<ArrayBuffer> {
  const infoBytes = 42;
  const packet = flac.subarray(infoBytes);
  const make = (dataAt: number): Buffer => {
    const tables = box("stbl", [
      table("stsd", [soundEntry("fLaC", [full("dfLa", Buffer.from(flac.subarray(4, infoBytes)))])]),
      table("stsc", [u32(1, 1, 1)]),
      full("stsz", u32(packet.length, 1)),
      table("stco", [u32(dataAt)]),
    ]);
    const edit = box("edts", [full("elst", Buffer.concat([u32(1, 0, 0), long(seconds * sampleRate), u32(0x0001_0000)]), 0, 1)]);
    return Buffer.concat([box("ftyp", [Buffer.from("M4A \0\0\0\0M4A ")]), movie(tables, [], {}, sampleRate, edit)]);
  };
  return Uint8Array.from(Buffer.concat([make(make(0).length + 8), box("mdat", [Buffer.from(packet)])]));
}

/** A WebM with one block of Opus. Its elements may claim any size, and its lacing any number of frames. */
export function webm(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const head = Buffer.from("4f707573486561640101380180bb0000000000", "hex");
  const audio = element("e1", [element("9f", [Buffer.from([1])]), element("b5", [float(48_000)])], lies);
  const track = element(
    "ae",
    [
      element("d7", [Buffer.from([1])]),
      element("83", [Buffer.from([2])]),
      element("86", [Buffer.from("A_OPUS")]),
      element("63a2", [head], lies),
      audio,
    ],
    lies,
  );
  const laced = Buffer.from([0x81, 0, 0, 0x04, lies["lacing"] ?? 1, 0xf8, 0xff, 0xfe, 0xf8, 0xff, 0xfe]);
  const plain = Buffer.from([0x81, 0, 20, 0x80, 0xf8, 0xff, 0xfe]);
  const cluster = element("1f43b675", [element("e7", [Buffer.from([0])]), element("a3", [plain], lies), element("a3", [laced])], lies);
  const segment = element("18538067", [element("1654ae6b", [track], lies), cluster], lies);
  return Uint8Array.from(Buffer.concat([element("1a45dfa3", [element("4282", [Buffer.from("webm")])]), segment]));
}

export function aiff(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const common = Buffer.from("0001" + "00000064" + "0010" + "400cfa00000000000000", "hex");
  const sound = Buffer.concat([u32(lies["SSND.offset"] ?? 0, 0), Buffer.alloc(200, 7)]);
  const chunks = Buffer.concat([chunk("COMM", common, lies["COMM"]), chunk("SSND", sound, lies["SSND"])]);
  return Uint8Array.from(Buffer.concat([Buffer.from("FORM"), u32(4 + chunks.length), Buffer.from("AIFF"), chunks]));
}

/** Two packets of ALAC that are not compressed, with a table of their lengths. */
export function caf(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const packet = alacPacket([1000, -1000, 500, -500]);
  const rate = Buffer.alloc(8);
  rate.writeDoubleBE(8000);
  const description = Buffer.concat([rate, Buffer.from("alac"), u32(1, 0, lies["frames"] ?? 4, 1, 0)]);
  const cookie = Buffer.concat([u32(lies["frames"] ?? 4), Buffer.from([0, 16, 40, 10, 14, 1, 0, 255]), u32(0, 0, 8000)]);
  const table = Buffer.concat([long(lies["pakt"] ?? 2), long(8), u32(0, 0), Buffer.from([packet.length, packet.length])]);
  const parts = [
    ["desc", description],
    ["kuki", cookie],
    ["pakt", table],
    ["data", Buffer.concat([u32(0), packet, packet])],
  ] as const;
  const chunks = parts.map(([name, body]) => Buffer.concat([Buffer.from(name), long(lies[name] ?? body.length), body]));
  return Uint8Array.from(Buffer.concat([Buffer.from("caff\0\u0001\0\0", "latin1"), ...chunks]));
}

export function wav(lies: Lies = {}): Uint8Array<ArrayBuffer> {
  const format = Buffer.alloc(20);
  [0x11, lies["channels"] ?? 1].forEach((value, index) => format.writeUInt16LE(value, index * 2));
  format.writeUInt32LE(8000, 4);
  format.writeUInt32LE(4055, 8);
  [lies["block"] ?? 36, 4, 2, 65].forEach((value, index) => format.writeUInt16LE(value, 12 + index * 2));
  const body = Buffer.concat([swapped(chunk("fmt ", format)), swapped(chunk("data", Buffer.alloc(72, 0x35), lies["data"]))]);
  const head = Buffer.from("RIFF\0\0\0\0WAVE", "latin1");
  head.writeUInt32LE(body.length + 4, 4);
  return Uint8Array.from(Buffer.concat([head, body]));
}

/** Everything above, with each number that can lie saying the most that it can, and zero. */
export function lyingContainers(): readonly (readonly [name: string, file: Uint8Array])[] {
  const most = 0xffff_ffff;
  return makers.flatMap(([kind, make, names]) =>
    names.flatMap((name) => [
      [
        `${kind} with the greatest ${name}`,
        make({ [name]: name === "lacing" ? 255 : ["channels", "block"].includes(name) ? 0xffff : most }),
      ] as const,
      [`${kind} with no ${name}`, make({ [name]: 0 })] as const,
    ]),
  );
}

const makers: readonly (readonly [kind: string, make: (lies: Lies) => Uint8Array, names: readonly string[]])[] = [
  [
    "m4a",
    m4a,
    ["stsd", "stts", "stts.samples", "ctts", "ctts.samples", "stsc", "stsc.samples", "stsz", "stsz.size", "stco", "stss", "sbgp", "elst"],
  ],
  ["m4a with equal packets", (lies) => m4a({ "stsz.size": 1, stsz: 0xffff_ffff, "stsc.samples": 0xffff_ffff, ...lies }), ["ctts.samples"]],
  ["mp4 in fragments", fragmentedMp4, ["trun", "senc", "saiz", "tfra", "elst"]],
  ["webm", webm, ["18538067", "1654ae6b", "ae", "e1", "63a2", "1f43b675", "a3", "lacing"]],
  ["aiff", aiff, ["COMM", "SSND", "SSND.offset"]],
  ["caf", caf, ["desc", "kuki", "pakt", "data", "frames"]],
  ["wav", wav, ["channels", "block", "data"]],
];

function movie(tables: Buffer, more: readonly Buffer[], lies: Lies, sampleRate = 44_100, edit = editList(lies)): Buffer {
  const identity = u32(0x0001_0000, 0, 0, 0, 0x0001_0000, 0, 0, 0, 0x4000_0000);
  const header = Buffer.concat([u32(0, 0, 1000, 46, 0x0001_0000, 0x0100_0000, 0, 0), identity, u32(0, 0, 0, 0, 0, 0, 2)]);
  const trackHeader = Buffer.concat([u32(0, 0, 1, 0, 46, 0, 0, 0, 0x0100_0000), identity, u32(0, 0)]);
  const media = box("mdia", [
    full("mdhd", u32(0, 0, sampleRate, 2048, 0x55c4_0000)),
    full("hdlr", Buffer.concat([u32(0), Buffer.from("soun"), Buffer.alloc(13)])),
    box("minf", [full("smhd", u32(0)), tables]),
  ]);
  return box("moov", [full("mvhd", header), box("trak", [full("tkhd", trackHeader, 7), edit, media]), ...more]);
}

/** Twenty milliseconds of silence. */
const opusPacket = Buffer.from("f8fffe", "hex");
const opusFacts = box("dOps", [Buffer.from("00" + "01" + "0138" + "0000bb80" + "0000" + "00", "hex")]);

function editList(lies: Lies): Buffer {
  return box("edts", [table("elst", [u32(46, 0, 0x0001_0000)], lies)]);
}

function soundEntry(name: string, inside: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(28);
  head.writeUInt16BE(1, 6);
  head.writeUInt16BE(1, 16);
  head.writeUInt16BE(16, 18);
  head.writeUInt16BE(44_100, 24);
  return box(name, [head, ...inside]);
}

function table(name: string, entries: readonly Buffer[], lies: Lies = {}): Buffer {
  return full(name, Buffer.concat([u32(lies[name] ?? entries.length), ...entries]));
}

function full(name: string, content: Buffer, flags = 0, version = 0): Buffer {
  return box(name, [u32(version * 2 ** 24 + flags), content]);
}

function box(name: string, content: readonly Buffer[]): Buffer {
  const all = Buffer.concat(content);
  return Buffer.concat([u32(all.length + 8), Buffer.from(name, "latin1"), all]);
}

/** A size of four bytes, or of eight where it is too large for that. */
function element(id: string, content: readonly Buffer[], lies: Lies = {}): Buffer {
  const all = Buffer.concat(content);
  const size = lies[id] ?? all.length;
  const sized = size < 2 ** 28 ? u32(0x1000_0000 + size) : Buffer.concat([u32(0x0100_0000), u32(size)]);
  return Buffer.concat([Buffer.from(id, "hex"), sized, all]);
}

function chunk(name: string, body: Buffer, size = body.length): Buffer {
  return Buffer.concat([Buffer.from(name), u32(size), body, Buffer.alloc(body.length % 2)]);
}

/** With the size of the chunk the other way round, as in WAV. */
function swapped(bytes: Buffer): Buffer {
  bytes.writeUInt32LE(bytes.readUInt32BE(4), 4);
  return bytes;
}

function alacPacket(samples: readonly number[]): Buffer {
  // A single channel, nothing shifted, not compressed, then each sample in sixteen bits, and the end.
  const bits = [...samples].map((sample) => (sample & 0xffff).toString(2).padStart(16, "0")).join("");
  const all = `${"0".repeat(22)}1${bits}111`;
  const padded = all.padEnd(Math.ceil(all.length / 8) * 8, "0");
  return Buffer.from(padded.match(/.{8}/gu)!.map((byte) => Number.parseInt(byte, 2)));
}

function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeUInt32BE(value >>> 0, index * 4));
  return bytes;
}

function long(value: number): Buffer {
  return u32(Math.floor(value / 2 ** 32), value);
}

function float(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatBE(value);
  return bytes;
}
