import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { azureSpeech } from "../../../../src/dialects/azure-speech/azure-speech.ts";
import { speechAddress } from "../../../../src/dialects/azure-speech/hosts.ts";
import { billedCharacters, escapedXml, ssmlOf } from "../../../../src/dialects/azure-speech/ssml.ts";
import type { EncodedRequest } from "../../../../src/dialects/dialect.ts";
import { presetNamed } from "../../../../src/dialects/presets.ts";
import { audioFormats } from "../../../../src/media/audio.ts";
import { isFailure, type Failure } from "../../../../src/operations/failure.ts";
import { readSpeechRequest } from "../../../../src/operations/speech/speech-request.ts";
import { anyText, numRuns } from "../../../support/properties.ts";
import { headOf, noTools, play, targetOf, tone, type TargetOptions } from "../../../support/speech-world.ts";

const codec = azureSpeech.speech!;
const voices = presetNamed("azure-speech")!.voices!;
const ava = "en-US-AvaMultilingualNeural";

function encode(fields: object, options: TargetOptions = {}): EncodedRequest | Failure {
  const body = JSON.stringify({ model: "m", input: "Hello.", voice: ava, ...fields });
  const ask = readSpeechRequest(Buffer.from(body), { charactersMax: 100_000 });
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return codec.encode(ask, targetOf({ voices, speechPath: "/tts/cognitiveservices/v1", ...options }));
}

function encoded(fields: object, options: TargetOptions = {}): EncodedRequest {
  const made = encode(fields, options);
  if (isFailure(made)) throw new Error(made.publicMessage);
  return made;
}

function ssml(fields: object, options: TargetOptions = {}): string {
  return Buffer.from(encoded(fields, options).request.body as Uint8Array).toString();
}

describe("a request", () => {
  test("is a document of one voice, in the locale of that voice", () => {
    const made = encoded({});
    expect(made.request).toMatchObject({
      method: "POST",
      url: "https://speech.test/v1/tts/cognitiveservices/v1",
      headers: { "content-type": "application/ssml+xml", "x-microsoft-outputformat": "audio-24khz-160kbitrate-mono-mp3" },
    });
    expect(ssml({})).toBe(
      `<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-US"><voice name="${ava}">Hello.</voice></speak>`,
    );
    expect(ssml({ voice: "de-DE-KatjaNeural" })).toContain('xml:lang="de-DE"');
    expect(ssml({ voice: "sr-Latn-RS-NicholasNeural" })).toContain('xml:lang="sr-Latn-RS"');
    expect([made.voice, made.dropped]).toEqual([null, []]);
  });

  test("asks for a format of the client, or for samples that are converted into it", () => {
    const formats = audioFormats.map((format) => {
      const { headers } = encoded({ response_format: format }).request;
      return [format, headers["x-microsoft-outputformat"]];
    });
    expect(Object.fromEntries(formats)).toEqual({
      mp3: "audio-24khz-160kbitrate-mono-mp3",
      opus: "ogg-24khz-16bit-mono-opus",
      aac: "raw-24khz-16bit-mono-pcm",
      flac: "raw-24khz-16bit-mono-pcm",
      wav: "riff-24khz-16bit-mono-pcm",
      pcm: "raw-24khz-16bit-mono-pcm",
    });
  });

  test("has the speed that the service has, and says where it is another", () => {
    expect(ssml({ speed: 1.5 })).toContain('<prosody rate="1.5">Hello.</prosody></voice>');
    expect(encoded({ speed: 1.5 }).dropped).toEqual([]);
    expect(ssml({ speed: 4 })).toContain('rate="2"');
    expect(ssml({ speed: 0.25 })).toContain('rate="0.5"');
    expect(encoded({ speed: 4, instructions: "Calmly." }).dropped).toEqual(["speed", "instructions"]);
    expect(ssml({ speed: 1 })).not.toContain("prosody");
  });

  test("has a voice of the service for every voice of the OpenAI API, and tells which", () => {
    for (const voice of "alloy ash ballad cedar coral echo fable marin nova onyx sage shimmer verse".split(" ")) {
      expect(encoded({ voice }).voice).toMatch(/^en-[A-Z]{2}-[A-Za-z]+Neural$/);
    }
  });

  test("has the model in the name of a voice where it belongs there", () => {
    expect(ssml({ voice: "en-US-Harper" }, { model: "MAI-Voice-2" })).toContain('<voice name="en-US-Harper:MAI-Voice-2">');
    expect(ssml({ voice: "en-US-Ava:DragonHDLatestNeural" })).toContain('<voice name="en-US-Ava:DragonHDLatestNeural">');
  });

  test("is refused for a voice that no service can have, by name", () => {
    for (const voice of [
      "somebody",
      'en-US-"><audio src="http://10.0.0.1"/>',
      "en-US-",
      "",
      "en-US-a\u0000b",
      `en-US-${"x".repeat(500)}`,
    ]) {
      if (voice === "") continue;
      const refused = encode({ voice });
      expect(refused).toMatchObject({ kind: "unsupported", param: "voice", status: 400 });
      expect((refused as Failure).publicMessage.length).toBeLessThan(250);
    }
  });

  test("is refused if its audio would be cut off after ten minutes", () => {
    expect(isFailure(encode({ input: "word ".repeat(819) }))).toBe(false);
    expect(isFailure(encode({ input: "word ".repeat(819), speed: 0.5 }))).toBe(false);
    expect(encode({ input: "字".repeat(4000) })).toMatchObject({ kind: "too_large", param: "input" });
    expect(isFailure(encode({ input: "字".repeat(2500) }))).toBe(false);
  });
});

/** An independent and strict reader of such a document. */
function spokenIn(document: string): string {
  const found = /^<speak version="1\.0" xmlns="[^"<&]+" xml:lang="[A-Za-z-]+"><voice name="[^"<&]*">([^<]*)<\/voice><\/speak>$/.exec(
    document,
  );
  const text = found?.[1];
  if (text === undefined) throw new Error(`not one voice: ${document}`);
  if (/[^\t\n\r -\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u.test(document)) throw new Error("a character that XML forbids");
  if (text.includes("]]>")) throw new Error("an end of a section that has not begun");
  return text.replace(/&(\w*;?)/g, (_, name: string) => {
    const character = { "amp;": "&", "lt;": "<", "gt;": ">", "quot;": '"', "apos;": "'" }[name];
    if (character === undefined) throw new Error(`an unknown entity: ${name}`);
    return character;
  });
}

describe("the text of a document", () => {
  test.each([
    ["Fish & chips < 5 > 3", "Fish & chips < 5 > 3"],
    ['</voice><voice name="x">', '</voice><voice name="x">'],
    ["]]> <![CDATA[ <!-- <?xml ?> &amp; &#0; &lt;", "]]> <![CDATA[ <!-- <?xml ?> &amp; &#0; &lt;"],
    ["tab\tline\nreturn\r", "tab\tline\nreturn\r"],
    ["nul\u0000bell\u0007esc\u001b vt\u000bff\u000c", "nul bell esc  vt ff "],
    ["half \ud83d end \ude00", "half   end  "],
    ["whole \u{1f600}", "whole \u{1f600}"],
    ["none\ufffe\uffff\ufffd", "none  \ufffd"],
    ["\u007f\u0085\u2028", "\u007f\u0085\u2028"],
  ])("%j is read as %j", (text, heard) => {
    expect(spokenIn(ssmlOf({ text, voice: ava, rate: null }))).toBe(heard);
  });

  test("is what the client wrote, for any text", () => {
    fc.assert(
      fc.property(anyText({ maxLength: 60 }), (text) => {
        const allowed = text.replace(/[^\t\n\r -\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu, " ");
        expect(spokenIn(ssmlOf({ text, voice: ava, rate: null }))).toBe(allowed);
      }),
      { numRuns: numRuns(300) },
    );
  });

  test("ends no attribute", () => {
    expect(escapedXml(`a"b'c`)).toBe("a&quot;b&apos;c");
  });
});

describe("what is billed", () => {
  test("is every character, Chinese ones twice, and the markup inside of the voice", async () => {
    expect(billedCharacters({ text: "Hello.", voice: ava, rate: null }, 6)).toBe(6);
    expect(billedCharacters({ text: "你好a", voice: ava, rate: null }, 3)).toBe(5);
    expect(billedCharacters({ text: "Hello.", voice: ava, rate: 1.5 }, 6)).toBe(6 + '<prosody rate="1.5"></prosody>'.length);
    const { answer } = encoded({ input: "你好", response_format: "pcm" });
    if (answer.kind !== "stream") throw new Error("it is no stream");
    const reader = await answer.reader(headOf("audio/x-raw"), noTools);
    if (isFailure(reader)) throw new Error(reader.detail);
    const { emissions } = await play(reader, [await tone("pcm")]);
    expect(emissions.find(({ kind }) => kind === "usage")).toMatchObject({ usage: { characters: 4 } });
  });
});

describe("the address", () => {
  const speechPath = "/tts/cognitiveservices/v1";
  test.each([
    ["https://westeurope.api.cognitive.microsoft.com", "https://westeurope.tts.speech.microsoft.com/cognitiveservices/v1"],
    ["https://usgovarizona.api.cognitive.microsoft.us", "https://usgovarizona.tts.speech.azure.us/cognitiveservices/v1"],
    ["https://chinaeast2.api.cognitive.azure.cn", "https://chinaeast2.tts.speech.azure.cn/cognitiveservices/v1"],
    ["https://westus.tts.speech.microsoft.com", "https://westus.tts.speech.microsoft.com/cognitiveservices/v1"],
    ["https://mine.cognitiveservices.azure.com", "https://mine.cognitiveservices.azure.com/tts/cognitiveservices/v1"],
    ["http://127.0.0.1:80", "http://127.0.0.1:80/tts/cognitiveservices/v1"],
    ["https://evil.test/x.api.cognitive.microsoft.com", "https://evil.test/x.api.cognitive.microsoft.com/tts/cognitiveservices/v1"],
  ])("of %s is %s", (baseUrl, url) => {
    expect(speechAddress({ baseUrl, speechPath })).toBe(url);
  });
});

describe("an error", () => {
  const explained = (status: number, body: string): Failure => codec.explain({ status, header: () => null, body });

  test("without a word is about the voice, and another channel may have it", () => {
    const broken = "upstream connect error or disconnect/reset before headers. reset reason: protocol error";
    for (const [status, body] of [
      [400, ""],
      [502, broken],
      [400, "Unsupported voice en-US-NobodyNeural."],
    ] as const) {
      expect(explained(status, body)).toMatchObject({ kind: "unsupported", param: "voice", status: 400 });
    }
  });

  test("of any other kind is explained as usual", () => {
    expect(explained(401, "")).toMatchObject({ kind: "unauthorized" });
    expect(explained(415, "")).toMatchObject({ kind: "misconfigured" });
    expect(explained(429, "")).toMatchObject({ kind: "rate_limited" });
    expect(explained(502, "bad gateway")).toMatchObject({ kind: "overloaded" });
  });
});
