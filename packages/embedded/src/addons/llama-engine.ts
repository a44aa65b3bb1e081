import type { AddonFile, AddonPackage } from "./addon.ts";

/**
 * The engine of language models: llama.cpp as a native Node addon, built by node-llama-cpp, for CPUs only. Only these binaries of
 * node-llama-cpp are needed, without its hundred dependencies and their install scripts.
 */
export const enginePackages: ReadonlyMap<string, AddonPackage> = new Map([
  [
    "linux-x64",
    {
      name: "@node-llama-cpp/linux-x64",
      version: "3.22.1",
      integrity: "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==",
      bytes: 10_824_547,
    },
  ],
  [
    "linux-arm64",
    {
      name: "@node-llama-cpp/linux-arm64",
      version: "3.22.1",
      integrity: "sha512-W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ==",
      bytes: 7_340_902,
    },
  ],
]);

/** All in one folder, where the addon finds the libraries. */
export function engineFiles(platform: string): readonly AddonFile[] {
  const from = enginePackages.get(platform);
  if (from === undefined) return [];
  return (binaries[platform] ?? []).map(([entry, bytes, sha256]) => ({
    path: `engine/${entry.slice(entry.lastIndexOf("/") + 1)}`,
    bytes,
    sha256,
    pieces: [{ package: from.name, entry, bytes, sha256 }],
  }));
}

/** There is a library for each CPU generation, and the engine loads the one that fits. */
const binaries: Readonly<Record<string, readonly (readonly [entry: string, bytes: number, sha256: string])[]>> = {
  "linux-x64": [
    ["LICENSE", 1065, "c34e5ffca98ede216da5157cff6df2ee6762a48d3391797edb6593df24849501"],
    ["bins/linux-x64/libggml-base.so", 919560, "6c342c8aeb20cb31a18099d6f79de4de6703814d1cfd5c4d754a8643087e486e"],
    ["bins/linux-x64/libggml-cpu-alderlake.so", 1224328, "6527efda35405a0d91574aced4a7766db9bb0494ab6458c83fe9eba755eb76f7"],
    ["bins/linux-x64/libggml-cpu-cannonlake.so", 1369312, "44285a67a31a81a036a70c565d391b31145d835044c03c76cfaa2f90a9d57d42"],
    ["bins/linux-x64/libggml-cpu-cascadelake.so", 1369312, "97cace813fbf7b7a07c4793f6a75b8b2d3de256430620f0be4a15bd4372468ea"],
    ["bins/linux-x64/libggml-cpu-cooperlake.so", 1365288, "5eda284fd8986d550e21623b269dd31d02c07fc70121d3099609d5dde6b6847e"],
    ["bins/linux-x64/libggml-cpu-haswell.so", 1228424, "ddaa96012769f0e86e8670cca374243751880bea2c2d0a4413b3a1b7a29dca74"],
    ["bins/linux-x64/libggml-cpu-icelake.so", 1369312, "9b9c24aaa775fd38a6e1ff082549e50d4138d29f2e2883630b28ab70704ed896"],
    ["bins/linux-x64/libggml-cpu-ivybridge.so", 1190120, "91b27ab81df92b8429c8e3441a8861014d3aec1424f90885a628fd0d4567532f"],
    ["bins/linux-x64/libggml-cpu-piledriver.so", 1186024, "2cb5b2101f5bbefa2416ec7f8b6c6acb177d04f0157989c5d92e4c07750fd3f8"],
    ["bins/linux-x64/libggml-cpu-sandybridge.so", 1180808, "bce17565033835dfb59fae2ed712d4c35e56463c2d49ea61ca08e6e2908bdfd6"],
    ["bins/linux-x64/libggml-cpu-sapphirerapids.so", 1669760, "e3d4840632b2242655e1721c6b93ec0370406dded9074accfe90bcfb67bd30b8"],
    ["bins/linux-x64/libggml-cpu-skylakex.so", 1369312, "df30b40a957175cd8e462e8838632dc51e3be7570b27b9526cb7a044263aeab3"],
    ["bins/linux-x64/libggml-cpu-sse42.so", 981608, "ec65053445506965db5dd9382d7ede084ba639edc55f77aaf73581c778969e02"],
    ["bins/linux-x64/libggml-cpu-x64.so", 977688, "1174c3c3e0b8722313df561d7ef5ece516a070732cec9b8ddda3667c0b959728"],
    ["bins/linux-x64/libggml-cpu-zen4.so", 1365288, "d84208de33fdadb8921a1a1a34342f5eceb1e58b83648be68050f7557312bd3e"],
    ["bins/linux-x64/libggml.v0.5.0.so", 55184, "41cd5e6ad78b9f0af31a6f80d637d3168e75ff84db14c495de4d3d9c95607444"],
    ["bins/linux-x64/libllama-common.so", 6169616, "8cb10e69b3de60d4ce6047ca13fe1e68c28caad87382701ee7fbde28d19952bd"],
    ["bins/linux-x64/libllama.v0.5.0.so", 4620496, "2ecd1d85f68456573a664106a9039366b88231579fd65d9669c9a6ab41374fd4"],
    ["bins/linux-x64/llama-addon.node", 744496, "48c1680dc565201570ee3591b6444c805958e78ef6e2f7a202849a21f7f12833"],
  ],
  "linux-arm64": [
    ["LICENSE", 1065, "c34e5ffca98ede216da5157cff6df2ee6762a48d3391797edb6593df24849501"],
    ["bins/linux-arm64/libggml-base.so", 952096, "ef8a2f781f9fccc99a744166529e20f48ea4c850e35fbb38d88762691fea1da6"],
    ["bins/linux-arm64/libggml-cpu-armv8.0_1.so", 984904, "016d2bd41948f4989df8c06a1cb1f6a3ed5a2ead811bd95a4511a842260f2365"],
    ["bins/linux-arm64/libggml-cpu-armv8.2_1.so", 1018920, "8539c4995e56237e5b43d2147bfabe0fabb21e55cb93d2f3ef55796c819f2d0d"],
    ["bins/linux-arm64/libggml-cpu-armv8.2_2.so", 1023016, "fe0312b22078d8215582ca9deb76d595257700a5d0c4cfc43a9a6ee93d828937"],
    ["bins/linux-arm64/libggml-cpu-armv8.2_3.so", 1018792, "0b5714435030b1a48b5dfae3484c1c592c7f95925444c1799f4a753046e6dbb3"],
    ["bins/linux-arm64/libggml-cpu-armv8.6_1.so", 1039496, "0fdfbb750748b9502cb5e90ff822415b30390de0b9c527c929087f36548d265e"],
    ["bins/linux-arm64/libggml-cpu-armv8.6_2.so", 1039496, "5179873d30a2e55db5d8bb20e3c28d32c0a170fbac237cebcbc2f77b477c8946"],
    ["bins/linux-arm64/libggml-cpu-armv9.2_1.so", 1039496, "98d963eee3db588a9531617588edb077c8f1cdca5ae6d974f0b3324ea1c290ab"],
    ["bins/linux-arm64/libggml-cpu-armv9.2_2.so", 1039496, "6cb2f7dcac85d7b1ea939354072495a16910d5509c3accd5caa1aab1df6d33f7"],
    ["bins/linux-arm64/libggml.v0.5.0.so", 50880, "c1c7b0c0d2d67863c7e0544dd7190bf0f0897c87ae3002efca5817bdda9b9b85"],
    ["bins/linux-arm64/libllama-common.so", 5824096, "e7447957af6f7ffb3964998c7f95375ed7d6a37269aaf17e6cd5706fd054b0fd"],
    ["bins/linux-arm64/libllama.v0.5.0.so", 4212712, "ba559136061c8ca89df13d86937fa4214100583fb4d734ab2a6ebe2a149be993"],
    ["bins/linux-arm64/llama-addon.node", 738352, "8e554d0a627a8063f5a3eae77b120a3278b134f50f1bbe2561a3553c995b6060"],
  ],
};
