import { z } from "zod";
import { dialects } from "../dialects/index.ts";
import { presets } from "../dialects/presets.ts";
import { audioFormats } from "../media/audio.ts";
import { transcriptFormats } from "../operations/transcription/transcript.ts";
import { rateNanosMax } from "../usage/price.ts";
import { defaulted, group, groups, optional, optionalGroup, required } from "./field.ts";
import {
  address,
  backend,
  choice,
  dollars,
  duration,
  flag,
  headerName,
  headerValue,
  integer,
  label,
  list,
  listen,
  mapOf,
  models,
  moment,
  name,
  operationList,
  orAuto,
  orOff,
  plainHeaderName,
  positiveNumber,
  secret,
  size,
  text,
} from "./kinds.ts";

export const defaultDataDir = "./data";

const dayMs = 86_400_000;
const keepMaxMs = 36_600 * dayMs;
/** Nine million dollars: up to there, billionths of a dollar are exact. */
const budgetNanosMax = 9e15;

/** The configuration file: every setting, what it may be, its default and what it is for. */

const ratesShape = {
  rpm: optional(integer(1, 1e9), "Requests per minute."),
  tpm: optional(integer(1, 1e12), "Tokens per minute, of prompts and answers together."),
  audio_seconds: optional(integer(1, 1e9), "Seconds of audio to be transcribed, per minute."),
  characters: optional(integer(1, 1e12), "Characters to be spoken, per minute."),
  concurrency: optional(integer(1, 1e6), "Requests at the same time."),
  budget_usd: optional(dollars(budgetNanosMax), "Spending limit in US dollars."),
  budget_period: optional(
    choice(["hour", "day", "week", "month", "total"]),
    "What the budget is counted over, in UTC; a week begins on Monday.",
    "`total`",
  ),
};

const keyShape = {
  name: required(name(), "Names the key in logs and receipts. Unique."),
  key: required(secret(), "What the client sends as `Authorization: Bearer …`. At least 16 characters; take it from a variable."),
  models: optional(list(text(), 1000), "The models it may ask for. A `*` stands for any run of characters.", "every model"),
  operations: optional(operationList(), "What it may ask for.", "all"),
  channels: optional(
    list(text(), 1000),
    "The channels it may be served by, by name or tag. A `*` stands for any run of characters.",
    "every channel",
  ),
  limits: optionalGroup(
    {
      ...ratesShape,
      unpriced: defaulted(
        choice(["refuse", "allow"]),
        "refuse",
        "What happens under a budget to a call whose price is not known: it is refused, or served and not counted.",
      ),
      per_model: groups(
        { model: required(text(), "The models this is for, as clients name them. A `*` stands for any run of characters."), ...ratesShape },
        "Limits for some models, on top of the key's own. The first that fits counts.",
      ),
    },
    "What it may use. What is over is refused with 429; a spent budget with `insufficient_quota`.",
  ),
  long_audio: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: a recording above the limit of a request is cut at silences, transcribed in parts and put together, for this key.",
  ),
  long_input: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: a text above the limit of a request is cut at sentence ends, spoken in parts and put together, for this key.",
  ),
  expires: optional(moment(), "From this moment on the key is refused. A date alone is its first moment in UTC.", "never"),
};

const channelShape = {
  name: required(name(), "Names the channel in logs and in `x-sluice-channel`. Unique."),
  provider: optional(
    choice(presets.map((preset) => preset.name)),
    "A known provider: brings its address, dialect and peculiarities (see Providers).",
  ),
  base_url: optional(
    address(),
    "The upstream's address up to and without `/chat/completions`. Needed without a provider; with one it replaces the provider's own.",
  ),
  dialect: optional(choice([...dialects.keys()]), "The API that the upstream speaks.", "the provider's; else the OpenAI API"),
  api_key: optional(secret(), "The upstream's key; take it from a variable. Not needed where the upstream asks for none."),
  api_keys: optional(list(secret(), 1000), "Several keys, used in turn: this makes a pooled channel."),
  api_key_file: optional(
    text(4096),
    "A file that holds the key and nothing else, such as a mounted secret. Relative to the configuration file. Read at start and at each reload.",
  ),
  auth_header: optional(
    headerName(),
    "The header that carries the key: `authorization` takes it as `Bearer …`, any other bare.",
    "the provider's; else `authorization`",
  ),
  resource: optional(label(), "The name of your resource, for a provider whose address holds it."),
  region: optional(label(), "The region, for a provider whose address holds it."),
  api_version: optional(text(32), "A dated version, for a provider that also has a dated address; choosing one chooses that address."),
  models: optional(
    models(),
    "Which models it serves: a map from the client's name to the upstream's, a list where the two are equal, or `\"*\"` for any name that no other channel lists.",
    "discovered from the upstream's own list",
  ),
  tier: optional(
    integer(0, 1000),
    "Tiers are tried in ascending order; channels of one tier share the load.",
    "`1`; `1000` for the embedded channel",
  ),
  weight: defaulted(positiveNumber(1e6), 1, "Its share of the tier's traffic."),
  concurrency: defaulted(
    integer(1, 1e6),
    512,
    "Requests at the same time; beyond that the next channel is tried, and where all are full a call waits for a place for two seconds.",
  ),
  pooled: optional(flag(), "Whether its keys are shared by many, so that a very large `max_tokens` is lowered.", "true with several keys"),
  max_tokens_ceiling: optional(
    orOff(integer(1, 1e9)),
    "The most output tokens a client may ask for; more is lowered to it, and `x-sluice-max-tokens` says so.",
    "`16384` for a pooled channel, else `off`",
  ),
  tags: optional(list(name(), 100), "Names that keys can be bound to, beside the channel's own."),
  quota: optional(name(), "Channels that name the same quota share an account, and so its cool-down."),
  timeouts: group(
    {
      connect: defaulted(duration(), "5s", "To connect, with TLS."),
      first_byte: defaulted(duration(), "300s", "Until the first byte of an answer that is not streamed."),
      first_content: defaulted(duration(), "60s", "Until the first content of a stream. Reasoning models need more, such as `300s`."),
      idle: defaulted(duration(), "120s", "Between any two bytes of a stream."),
      progress: defaulted(duration(), "300s", "Between two data events of a stream; heartbeats do not count."),
      total: defaulted(duration(), "30m", "For a whole stream."),
    },
    "How long to wait for this upstream.",
  ),
  headers: optional(mapOf(plainHeaderName(), headerValue(), "map of headers"), "Fixed headers for every request. Not for keys."),
  forward_headers: optional(
    list(plainHeaderName(), 32),
    "Client headers that travel on to the upstream, besides those the provider is known for.",
  ),
  proxy: optional(address(), "An HTTP proxy on the way. Proxies named in the environment are not used."),
  capabilities: optionalGroup(
    {
      operations: optional(operationList(), "What it can do.", "the provider's; else all"),
      prefill: optional(flag(), "It continues an assistant message that ends the conversation.", "`false`"),
      context_tokens: optional(
        integer(1, 1e9),
        "The size of its context; longer requests go to channels that declare more, and what they refuse to one that declares nothing.",
      ),
      stream_options: optional(
        flag(),
        "It accepts `stream_options`. Where it does not, streamed usage is what it sends by itself, or an estimate.",
        "the provider's; else `true`",
      ),
      transcription_formats: optional(
        list(choice(transcriptFormats), 6),
        "Transcript formats it answers in; any other is rendered from the richest of these.",
        "the provider's; else whatever is asked for",
      ),
      speech_formats: optional(
        list(choice(audioFormats), 6),
        "Audio formats it answers in; any other is transcoded from the best of these.",
        "the provider's; else whatever is asked for",
      ),
      speech_events: optional(
        flag(),
        "It can send speech as events (`stream_format: sse`); else the gateway makes them of its bytes.",
        "the provider's; else `true`",
      ),
      transcription_stream: optional(flag(), "It streams transcripts; else they come as one delta.", "the provider's; else `true`"),
      audio_limit: optional(size(1024, 8 * 1024 ** 3), "The largest file it takes; larger ones go to other channels."),
      audio_seconds: optional(integer(1, 1e6), "The longest recording it takes, in seconds."),
      speech_limit: optional(integer(1, 1e6), "The longest text it speaks, in characters."),
    },
    "What the preset does not know.",
  ),
  long_audio: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: a recording above the limit of a request is cut at silences, transcribed in parts and put together, on this channel.",
  ),
  long_input: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: a text above the limit of a request is cut at sentence ends, spoken in parts and put together, on this channel.",
  ),
  voices: optional(
    mapOf(text(), text(), "map of voices"),
    "The client's name of a voice to the upstream's. `x-sluice-voice` tells when one was mapped.",
  ),
  unknown_voice: optional(
    choice(["pass", "strict", "default"]),
    "A voice on neither side of that map is sent as it is (`pass`), refused (`strict`), or replaced by the first of the map (`default`).",
    "`strict` with `voices`, else `pass`",
  ),
};

/** One channel, as the file and the admin API describe it. */
export const channelSchema = z.strictObject(channelShape);

export const fileSchema = z.strictObject({
  listen: defaulted(listen(), "127.0.0.1:4400", "Where clients connect. Use `0.0.0.0:4400` to be reachable from other machines."),
  admin: defaulted(orOff(listen()), "127.0.0.1:4401", "Where the admin API listens. A listener of its own."),
  admin_names: optional(list(text(), 100), "Host names under which browsers may reach the admin listener, beside its own address.", "none"),
  admin_tls: defaulted(
    flag(),
    false,
    "Whether people reach the admin listener over https, through a proxy in front of it. Then cookies are for https only.",
  ),
  data_dir: defaulted(text(4096), defaultDataDir, "Where durable data lives. Relative to the working directory."),
  store: defaulted(
    backend("sqlite", ["postgres", "postgresql"]),
    "sqlite",
    "Where keys, receipts and the rest are kept: a file in `data_dir`, or a PostgreSQL (15 or later) that several machines share.",
  ),
  state: defaulted(
    backend("memory", ["redis", "rediss"]),
    "memory",
    "Where limits and cool-downs are shared between replicas: Redis or Valkey. With `memory`, replicas share them through PostgreSQL.",
  ),
  state_loss: defaulted(
    choice(["split", "open", "closed"]),
    "split",
    "While what is shared cannot be reached: each replica grants its part of a limit, everything, or nothing. Budgets never open.",
  ),
  expose: defaulted(choice(["all", "none"]), "all", "`none` hides `x-sluice-channel` and `x-sluice-attempts` from clients."),
  allow_private: defaulted(flag(), false, "Whether channels added through the admin API may point at private addresses."),
  keys: groups(keyShape, "Who may call. Without any, one is made at the start and printed once."),
  channels: groups(channelShape, "Where calls go."),
  routing: group(
    {
      attempts: defaulted(integer(1, 10), 3, "How many channels may be tried for one call."),
      hedge_after: defaulted(
        orAuto(orOff(duration())),
        "auto",
        "Silence after which a second attempt starts elsewhere while the first lives on. `auto`: twice the deployment's own 95th percentile to first content and at least 5 s, once twenty calls are known; 15 s before that, and then not for requests that ask for reasoning.",
      ),
      rescue: defaulted(
        choice(["auto", "continue", "error"]),
        "auto",
        "What happens to a plain text that breaks off after some of it was sent. It is continued once by a channel with the same upstream model (`auto`), or by any channel of the route (`continue`). `error`, and where that fails: an error in the stream.",
      ),
      wait: defaulted(
        orOff(duration(1, 600_000)),
        "off",
        "How long a call may wait its turn when every channel cools down or is full, instead of an instant refusal. Keys take turns. Where it is off, calls wait for a place at a full channel all the same, two seconds at the most and the newest first.",
      ),
      deadlines: group(
        {
          stream: defaulted(duration(), "120s", "Over all attempts, until a stream's first content."),
          whole: defaulted(duration(), "600s", "Over all attempts, for an answer that is not streamed."),
        },
        "How long a client is kept waiting over all attempts.",
      ),
    },
    "How hard the gateway tries.",
  ),
  prices: groups(
    {
      provider: optional(text(64), "The provider it holds for, as in a channel's `provider`.", "whoever serves the model"),
      model: required(text(), "The upstream's name of the model. A `*` stands for any run of characters."),
      from: optional(moment(), "The day it holds from.", "always"),
      input: optional(dollars(rateNanosMax), "Dollars per million prompt tokens."),
      cached_input: optional(dollars(rateNanosMax), "Of those, per million that came from a cache.", "as `input`"),
      output: optional(dollars(rateNanosMax), "Dollars per million tokens of answers."),
      reasoning: optional(dollars(rateNanosMax), "Of those, per million that were reasoning.", "as `output`"),
      audio_input: optional(dollars(rateNanosMax), "Dollars per million audio tokens of prompts.", "as `input`"),
      audio_output: optional(dollars(rateNanosMax), "Dollars per million audio tokens of answers.", "as `output`"),
      characters: optional(dollars(rateNanosMax), "Dollars per million characters that are spoken."),
      second: optional(dollars(rateNanosMax), "Dollars per second of audio that is transcribed."),
      call: optional(dollars(rateNanosMax), "Dollars per call."),
    },
    "What models cost, where the prices that come along are not yours or do not know a model. A price that is not given is unknown, not zero.",
  ),
  receipts: group(
    {
      sync: defaulted(
        flag(),
        false,
        "Whether an answer's end waits until its receipt is safe from a power failure, and not only from the death of the process.",
      ),
      keep: defaulted(duration(dayMs, keepMaxMs), "90d", "How long single receipts are kept. Daily sums are kept for ever."),
      keep_hours: defaulted(duration(dayMs, keepMaxMs), "400d", "How long hourly sums are kept."),
    },
    "What is written down of each call.",
  ),
  server: group(
    {
      body_limit: defaulted(size(1024, 1024 ** 3), "64MiB", "The largest request body that is not an upload."),
      audio_limit: defaulted(size(1024, 8 * 1024 ** 3), "25MiB", "The largest audio file to be transcribed."),
      speech_limit: defaulted(integer(1, 1e6), 4096, "The longest text to be spoken, in characters."),
      long_audio_limit: defaulted(size(1024, 8 * 1024 ** 3), "500MiB", "The largest audio file where `long_audio: split` applies."),
      long_speech_limit: defaulted(integer(1, 1e7), 100_000, "The longest text where `long_input: split` applies."),
      keep_alive: defaulted(orOff(duration()), "15s", "Silence in a stream after which a comment line is sent."),
      early_headers: defaulted(
        orOff(duration()),
        "15s",
        "Silence after which a waiting stream gets its status line, so that proxies do not give up.",
      ),
      write_stall: defaulted(duration(), "60s", "A client that takes no bytes for this long is cut off."),
      body_read: defaulted(duration(), "120s", "How long a client may take to send a body that is not an upload."),
      upload_read: defaulted(
        duration(),
        "300s",
        "How long a client may take to upload up to 25 MiB; a larger upload has more time, in proportion. One that stands still for 20 seconds is ended sooner.",
      ),
      uploads: defaulted(
        integer(1, 1e6),
        16,
        "Uploads that are read at the same time, over all clients; beyond that they get 503. While another key waits, none keeps more than its share.",
      ),
      in_flight: optional(
        integer(1, 1e6),
        "Requests at the same time, over all clients; beyond that they get 503.",
        "(open files allowed − 256) / 2, at most 10000",
      ),
      wrong_keys: defaulted(
        orOff(integer(1, 1e6)),
        30,
        "How many wrong keys one address may send in a minute before it gets 429 for them. A right key is served all the same.",
      ),
      connections_per_address: defaulted(
        orOff(integer(1, 1e6)),
        "off",
        "How many connections one address (of IPv6, one /64 network) may have at the same time, with each worker; further ones are reset. For a gateway that clients reach directly: behind a proxy all of them come from its address.",
      ),
      linger: defaulted(duration(0), "5s", "After SIGTERM: how long to go on accepting, for load balancers to notice."),
      drain: defaulted(duration(0), "120s", "After that: how long running streams may go on."),
    },
    "How the gateway behaves towards its clients.",
  ),
  log: group(
    {
      level: defaulted(choice(["debug", "info", "warn", "error"]), "info", "How much is logged. Prompts and answers never are."),
    },
    "What is written to the log.",
  ),
});

/** A file that fits, with every default filled in. */
export type ConfigFile = z.infer<typeof fileSchema>;
export type ChannelEntry = ConfigFile["channels"][number];
export type KeyEntry = ConfigFile["keys"][number];
export type PriceEntry = ConfigFile["prices"][number];
