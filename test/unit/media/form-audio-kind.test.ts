import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { audioKindOf, sniffAudio } from "../../../src/media/audio-kind.ts";

function bytes(...pieces: readonly (string | readonly number[] | Uint8Array)[]): Uint8Array {
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece, "latin1") : Buffer.from(piece))));
}

/** As many frames as asked for, each as long as its header says, filled with zeros. */
function frames(header: readonly number[], lengthBytes: number, count = 3): Uint8Array {
  const frame = Buffer.alloc(lengthBytes);
  frame.set(header);
  return Buffer.concat(Array.from({ length: count }, () => frame));
}

/** A tag of ID3v2 with so many bytes of content, and a footer if the flags say so. */
function tag(contentBytes: number, flags = 0): Uint8Array {
  const size = [21, 14, 7, 0].map((shift) => (contentBytes >> shift) & 0x7f);
  return bytes("ID3", [4, 0, flags], size, Buffer.alloc(contentBytes + (flags === 0x10 ? 10 : 0)).toString("latin1"));
}

const mpeg1Layer3 = [0xff, 0xfb, 0x90, 0x64] as const;
/** MPEG-4 AAC-LC, 44.1 kHz, stereo, 100 bytes a frame. */
const adts = [0xff, 0xf1, 0x50, 0x80, 0x0c, 0x9f, 0xfc] as const;

describe("the first bytes of a file tell", () => {
  test.each<readonly [what: string, head: Uint8Array, kind: string | null]>([
    ["wav", bytes("RIFF\x24\0\0\0WAVEfmt "), "wav"],
    ["wav of more than 4 GB", bytes("RF64\xff\xff\xff\xffWAVEds64"), "wav"],
    ["mp3 with a tag", bytes(tag(2000), frames(mpeg1Layer3, 417)), "mp3"],
    ["mp3 with a tag larger than the head", bytes("ID3", [3, 0, 0, 0, 8, 0, 0], "APIC"), "mp3"],
    ["mp3 with nothing but the mark of a tag", bytes("ID3"), "mp3"],
    ["mp3 without a tag, 128 kbit/s", frames(mpeg1Layer3, 417), "mp3"],
    ["mp3 with padding", frames([0xff, 0xfb, 0x92, 0x64], 418), "mp3"],
    ["mp3 with checksums", frames([0xff, 0xfa, 0x90, 0x64], 417), "mp3"],
    ["mp3 of 24 kHz (MPEG-2)", frames([0xff, 0xf3, 0x84, 0xc4], 192), "mp3"],
    ["mp3 of 8 kHz (MPEG-2.5)", frames([0xff, 0xe3, 0x18, 0xc4], 72), "mp3"],
    ["mp3 of a single frame", frames(mpeg1Layer3, 417, 1), "mp3"],
    ["layer II", frames([0xff, 0xfd, 0xa4, 0x00], 576), "mp3"],
    ["m4a", bytes([0, 0, 0, 0x20], "ftypM4A \0\0\x02\0"), "m4a"],
    ["an audio book", bytes([0, 0, 0, 0x20], "ftypM4B "), "m4a"],
    ["mp4", bytes([0, 0, 0, 0x18], "ftypmp42"), "mp4"],
    ["mp4 of another brand", bytes([0, 0, 0, 0x18], "ftypisom"), "mp4"],
    ["webm", bytes([0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x82, 0x84], "webm"), "webm"],
    ["matroska", bytes([0x1a, 0x45, 0xdf, 0xa3, 0xa3, 0x42, 0x82, 0x88], "matroska"), "mkv"],
    ["ogg", bytes("OggS\0\x02"), "ogg"],
    ["flac", bytes("fLaC\0\0\0\x22"), "flac"],
    ["flac behind a tag", bytes(tag(300), "fLaC"), "flac"],
    ["aac", frames(adts, 100), "aac"],
    ["aac of a single frame", frames(adts, 100, 1), "aac"],
    ["aac of MPEG-2", frames([0xff, 0xf9, ...adts.slice(2)], 100), "aac"],
    ["aac behind a tag with a footer", bytes(tag(300, 0x10), frames(adts, 100)), "aac"],
    ["amr", bytes("#!AMR\n"), "amr"],
    ["wide-band amr", bytes("#!AMR-WB\n"), "amr"],
    ["aiff", bytes("FORM\0\0\0\x20AIFFCOMM"), "aiff"],
    ["compressed aiff", bytes("FORM\0\0\0\x20AIFCFVER"), "aiff"],
    ["caf", bytes("caff\0\x01\0\0desc"), "caf"],
    ["a picture in a RIFF", bytes("RIFF\x24\0\0\0WEBPVP8 "), null],
    ["a video in a RIFF", bytes("RIFF\x24\0\0\0AVI LIST"), null],
    ["another FORM", bytes("FORM\0\0\0\x20ILBM"), null],
    ["a JPEG", bytes([0xff, 0xd8, 0xff, 0xe0], "\0\x10JFIF"), null],
    [
      "text of UTF-16",
      Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from("a text of some length, in two bytes a character".repeat(40), "utf16le")]),
      null,
    ],
    ["a short text of UTF-16", Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from("hi", "utf16le")]), null],
    ["set bits", Buffer.alloc(4096, 0xff), null],
    ["one frame of MP3, then something else", bytes(frames(mpeg1Layer3, 417, 1), "x".repeat(500)), null],
    ["frames without a bit rate", frames([0xff, 0xfb, 0x00, 0x64], 417), null],
    ["a plain text", bytes("speech.wav"), null],
    ["a PDF", bytes("%PDF-1.7"), null],
    ["nothing", bytes(), null],
  ])("%s", (_, head, kind) => {
    expect(sniffAudio(head)).toBe(kind as ReturnType<typeof sniffAudio>);
  });

  test("nothing surprising, whatever they are and wherever they end", () => {
    const starts = ["", "ID3", "RIFF", "FORM", "\xff\xfb", "\xff\xf1", "\xff\xe3", "\x1a\x45\xdf\xa3", "\0\0\0\x18ftyp"];
    fc.assert(
      fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 4096 }), (start, rest) => {
        const kind = sniffAudio(bytes(start, [...rest]));
        expect(kind === null || /^[a-z0-9]{2,4}$/.test(kind)).toBe(true);
      }),
    );
  });
});

describe("a media type names", () => {
  test.each([
    ["audio/wav", "wav"],
    ["Audio/X-WAV", "wav"],
    ["audio/mpeg", "mp3"],
    ["audio/mp4; codecs=mp4a.40.2", "m4a"],
    ["video/mp4", "mp4"],
    ["audio/webm;codecs=opus", "webm"],
    ["audio/ogg; codecs=opus", "ogg"],
    ["audio/flac", "flac"],
    ["audio/aac", "aac"],
    ["application/octet-stream", null],
    ["", null],
    ["__proto__", null],
  ] as const)("%s: %p", (type, kind) => {
    expect(audioKindOf(type)).toBe(kind);
  });
});
