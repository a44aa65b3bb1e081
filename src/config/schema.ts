import { z } from "zod";
import { authKinds } from "../channels/channel-auth.ts";
import { dialects } from "../dialects/index.ts";
import { presets } from "../dialects/presets.ts";
import { chatApis } from "../channels/channel.ts";
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
  fileMode,
  flag,
  headerName,
  headerValue,
  hostName,
  integer,
  label,
  list,
  listen,
  listenOrSocket,
  mapOf,
  models,
  moment,
  name,
  network,
  operationList,
  orAuto,
  origin,
  orOff,
  perModel,
  plainHeaderName,
  positiveNumber,
  secret,
  secretAddress,
  size,
  text,
} from "./kinds.ts";
import { groupKinds } from "../keys/group.ts";
import { signInShape, tokenIssuerShape } from "./identity/shapes.ts";
import { budgetNanosMax, budgetPeriods, rateLimitMax } from "../limits/limit-fields.ts";

/** What webhooks can be told of, as in `src/telemetry/webhooks/notices.ts`. */
export const noticeTypes = ["budget.warning", "budget.spent", "channel.down", "channel.up", "key.expiring", "cost.jump"] as const;

export const defaultDataDir = "./data";

const dayMs = 86_400_000;
const keepMaxMs = 36_600 * dayMs;
/** One for receipts, one for queries of the admin API, and two for calls. */
const connectionsMin = 4;

/** The schema of the configuration file: each setting with its type, its default and its description. */

const ratesShape = {
  rpm: optional(integer(1, rateLimitMax.rpm), "Requests per minute."),
  tpm: optional(integer(1, rateLimitMax.tpm), "Tokens per minute, prompts and answers together."),
  audio_seconds: optional(integer(1, rateLimitMax.audio_seconds), "Transcribed seconds of audio per minute."),
  characters: optional(integer(1, rateLimitMax.characters), "Spoken characters per minute."),
  concurrency: optional(integer(1, rateLimitMax.concurrency), "Requests that may run at the same time."),
  budget_usd: optional(dollars(budgetNanosMax), "Spending limit in US dollars."),
  budget_period: optional(choice(budgetPeriods), "The period of the budget, in UTC; a week begins on Monday.", "`total`"),
};

const limitsShape = {
  ...ratesShape,
  budgets: groups(
    {
      name: required(name(), "The budget's name in messages and lists."),
      models: optional(list(text(), 1000), "The models that it is for. A `*` stands for any run of characters.", "every model"),
      operations: optional(operationList(), "The operations that it is for.", "all"),
      channels: optional(
        list(text(), 1000),
        "The channels that it is for, by name or tag. A `*` stands for any run of characters. A call counts for the channel that answered it.",
        "every channel",
      ),
      budget_usd: required(dollars(budgetNanosMax), "Spending limit in US dollars."),
      budget_period: optional(choice(budgetPeriods), "The period of the budget, in UTC; a week begins on Monday.", "`total`"),
    },
    "Further budgets, each for some of the calls. Every one that is for a call applies to it.",
  ),
  unpriced: defaulted(
    choice(["refuse", "allow"]),
    "refuse",
    "What happens to a call without a known price if there is a budget: it is rejected, or served without being counted.",
  ),
  per_model: groups(
    {
      model: required(
        text(),
        "The models that the limits apply to, by the names that clients use. A `*` stands for any run of characters.",
      ),
      ...ratesShape,
    },
    "Limits for some models, in addition to the others. The first matching entry applies.",
  ),
};

export const groupShape = {
  name: required(name(), "The group's name in messages, lists and receipts. It must be unique."),
  kind: defaulted(choice(groupKinds), "group", "What the group is called in messages."),
  parent: optional(name(), "The group above it. There are at most three levels.", "none"),
  limits: optionalGroup(limitsShape, "How much all keys of the group may use together, those of the groups below it included."),
  frozen: defaulted(flag(), false, "Whether all keys of the group are rejected."),
  defaults: optionalGroup(
    {
      keys: optionalGroup(limitsShape, "For each key in the group, and in the groups below it, that does not set the limit itself."),
      groups: optionalGroup(limitsShape, "For each group directly below it that does not set the limit itself."),
    },
    "Limits of each child for itself.",
  ),
};

export const keyShape = {
  name: required(name(), "The key's name in logs and receipts. It must be unique."),
  key: required(
    secret(),
    "The secret that the client sends as `Authorization: Bearer …`, at least 16 characters. Take it from a variable.",
  ),
  models: optional(list(text(), 1000), "The models that the key may use. A `*` stands for any run of characters.", "every model"),
  operations: optional(operationList(), "The operations that the key may use.", "all"),
  channels: optional(
    list(text(), 1000),
    "The channels that may serve the key, by name or tag. A `*` stands for any run of characters.",
    "every channel",
  ),
  limits: optionalGroup(
    limitsShape,
    "How much the key may use. Requests beyond a limit get 429, and `insufficient_quota` once a budget is spent.",
  ),
  group: optional(
    name(),
    "The group that the key belongs to: one of `groups`. Its limits count as well, and those of the groups above it.",
  ),
  long_audio: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: for this key, recordings above the limit of a request are cut at silences, transcribed in parts and joined.",
  ),
  long_input: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: for this key, texts above the limit of a request are cut at sentence ends, spoken in parts and joined.",
  ),
  expires: optional(moment(), "The key is rejected from this time on. A date alone means its first moment in UTC.", "never"),
};

export const channelShape = {
  name: required(name(), "The channel's name in logs and in `x-sluice-channel`. It must be unique."),
  provider: optional(
    choice(presets.map((preset) => preset.name)),
    "A known provider, which sets the address, the dialect and everything else that is special about it (see Providers).",
  ),
  base_url: optional(
    address(),
    "The upstream's address, without `/chat/completions`. Required without a provider; with one, it replaces the provider's address.",
  ),
  dialect: optional(choice([...dialects.keys()]), "The API that the upstream speaks.", "the provider's; else the OpenAI API"),
  api: optional(
    perModel(choice(chatApis)),
    "Which API the upstream has for chats, where it speaks the OpenAI API: chat completions, the Responses API, or both. With `both`, a client gets the API that it speaks, and models that need the Responses API get it. A map names models as the upstream does, with `*` for any run of characters; the first match counts, and other models get `chat`.",
    "the provider's; else `chat`",
  ),
  api_key: optional(secret(), "The upstream's API key; take it from a variable. Leave it out if the upstream does not need one."),
  api_keys: optional(list(secret(), 1000), "Several API keys, which are used in turn. The channel is then pooled."),
  api_key_file: optional(
    text(4096),
    "A file that contains only the API key, such as a mounted secret. The path is relative to the configuration file. It is read at the start and at each reload.",
  ),
  auth_header: optional(
    headerName(),
    "The header that carries the API key: `authorization` as `Bearer …`, any other as it is.",
    "the provider's; else `authorization`",
  ),
  auth: optional(
    choice(authKinds),
    "How the gateway authenticates: with the API key (`key`), signed requests (`aws`), or access tokens of Google Cloud (`google`) or Microsoft Entra (`entra`). The API key is then `ACCESS_KEY_ID:SECRET_ACCESS_KEY` (and `:SESSION_TOKEN`), the JSON of a service account or an external account (as `api_key_file`, or in base64), or `TENANT:CLIENT_ID:CLIENT_SECRET`. Without an API key, it is the identity of this machine.",
    "the provider's; else `key`",
  ),
  token_url: optional(address(), "Where access tokens are requested, if not at the cloud's usual address."),
  resource: optional(label(), "The name of your resource, for a provider whose address contains it."),
  region: optional(label(), "The region, for a provider whose address contains it."),
  api_version: optional(
    text(32),
    "A dated API version, for a provider that has a separate address for these; setting it selects that address.",
  ),
  models: optional(
    models(),
    "The models that the channel serves: a map from the client's name to the upstream's, a list if the names are equal, or `\"*\"` for any name that no other channel lists.",
    "discovered from the upstream's own list",
  ),
  tier: optional(
    integer(0, 1000),
    "Tiers are tried in ascending order; channels of one tier share the load.",
    "`1`; `1000` for the embedded channel",
  ),
  weight: defaulted(
    positiveNumber(1e6),
    1,
    "The channel's share of its tier's traffic, among those that are about as quick: one that takes more than twice as long to answer as another, or is that much busier for its weight, is asked after it.",
  ),
  concurrency: defaulted(
    integer(1, 1e6),
    512,
    "Requests that may run at the same time. Beyond that, the next channel is tried; if all are full, a call waits up to two seconds for a free slot.",
  ),
  pooled: optional(
    flag(),
    "Whether many clients share the channel's API keys, so that a very large `max_tokens` is lowered.",
    "true with several keys",
  ),
  max_tokens_ceiling: optional(
    orOff(integer(1, 1e9)),
    "The most output tokens that a client may ask for. A larger number is lowered, and `x-sluice-max-tokens` says so.",
    "`16384` for a pooled channel, else `off`",
  ),
  tags: optional(
    list(name(), 100),
    "Further names by which a client key can be restricted to this channel, and by which budgets select it. With the channel's name they may have 500 characters in all.",
  ),
  quota: optional(name(), "Channels with the same quota name share an account at the provider, and so cool down together."),
  timeouts: group(
    {
      connect: defaulted(duration(), "5s", "Until the connection is open, including TLS."),
      first_byte: defaulted(duration(), "300s", "Until the first byte of an answer that is not streamed."),
      first_content: defaulted(duration(), "60s", "Until the first content of a stream. Reasoning models need longer, such as `300s`."),
      idle: defaulted(duration(), "120s", "Between any two bytes of a stream."),
      progress: defaulted(duration(), "300s", "Between two data events of a stream; heartbeats do not count."),
      total: defaulted(duration(), "30m", "For a whole stream."),
    },
    "How long to wait for this upstream.",
  ),
  headers: optional(mapOf(plainHeaderName(), headerValue(), "map of headers"), "Fixed headers for every request. Do not put keys here."),
  forward_headers: optional(
    list(plainHeaderName(), 32),
    "Client headers that are passed on to the upstream, in addition to those of the provider.",
  ),
  proxy: optional(address(), "An HTTP proxy for this channel. Proxies from the environment are not used."),
  capabilities: optionalGroup(
    {
      operations: optional(operationList(), "The operations that the upstream supports.", "the provider's; else all"),
      prefill: optional(flag(), "The upstream continues an assistant message at the end of the conversation.", "`false`"),
      context_tokens: optional(
        integer(1, 1e9),
        "The size of the context. Longer requests go to channels that declare more, and if those reject them, to one that declares nothing.",
      ),
      stream_options: optional(
        flag(),
        "The upstream accepts `stream_options`. If not, the usage of streams is what it sends unasked, or an estimate.",
        "the provider's; else `true`",
      ),
      transcription_formats: optional(
        list(choice(transcriptFormats), 6),
        "The transcript formats that the upstream supports; others are rendered from the richest of these.",
        "the provider's; else whatever is asked for",
      ),
      speech_formats: optional(
        list(choice(audioFormats), 6),
        "The audio formats that the upstream supports; others are transcoded from the best of these.",
        "the provider's; else whatever is asked for",
      ),
      speech_events: optional(
        flag(),
        "The upstream can send speech as events (`stream_format: sse`); if not, the gateway makes the events from the bytes.",
        "the provider's; else `true`",
      ),
      transcription_stream: optional(
        flag(),
        "The upstream can stream transcripts; if not, they are sent as one delta.",
        "the provider's; else `true`",
      ),
      audio_limit: optional(size(1024, 8 * 1024 ** 3), "The largest file that the upstream accepts; larger ones go to other channels."),
      audio_seconds: optional(integer(1, 1e6), "The longest recording that the upstream accepts, in seconds."),
      speech_limit: optional(integer(1, 1e6), "The longest text that the upstream accepts, in characters."),
    },
    "What the upstream can do, if it differs from the preset.",
  ),
  long_audio: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: on this channel, recordings above the limit of a request are cut at silences, transcribed in parts and joined.",
  ),
  long_input: defaulted(
    choice(["off", "split"]),
    "off",
    "`split`: on this channel, texts above the limit of a request are cut at sentence ends, spoken in parts and joined.",
  ),
  voices: optional(
    mapOf(text(), text(), "map of voices"),
    "A map from the client's voice names to the upstream's. `x-sluice-voice` tells which voice was used instead.",
  ),
  unknown_voice: optional(
    choice(["pass", "strict", "default"]),
    "A voice on neither side of that map is passed on (`pass`), rejected (`strict`), or replaced by the first voice of the map (`default`).",
    "`strict` with `voices`, else `pass`",
  ),
};

/** One channel, as in the file and in the admin API. */
export const channelSchema = z.strictObject(channelShape);

export const fileSchema = z.strictObject({
  listen: defaulted(
    listenOrSocket(),
    "127.0.0.1:4400",
    "Where clients connect. Use `0.0.0.0:4400` to be reachable from other machines, or `unix:/run/sluice/sluice.sock` for a proxy on this one.",
  ),
  admin: defaulted(orOff(listen()), "127.0.0.1:4401", "Where the admin API listens. It is separate from the clients' listener."),
  admin_names: optional(
    list(hostName(), 100),
    "Host names by which browsers may reach the admin listener, in addition to its own address.",
    "none",
  ),
  admin_tls: defaulted(
    flag(),
    false,
    "Whether the admin listener is reached over https, through a proxy in front of it. Cookies are then restricted to https.",
  ),
  listen_mode: defaulted(fileMode(), "660", "If `listen` is a unix socket, its permissions, which decide who may connect."),
  tls: optionalGroup(
    {
      cert_file: required(
        text(4096),
        "The certificate in PEM format, followed by those of its issuers. The path is relative to the configuration file. If one of these files changes, and on SIGHUP, they are read again; open connections stay.",
      ),
      key_file: required(text(4096), "The private key of that certificate, without a passphrase."),
      client_ca_file: optional(text(4096), "The certificates of those who issue certificates to clients."),
      client_certificates: defaulted(
        choice(["none", "optional", "required"]),
        "none",
        "Whether clients must show a certificate that one of those has issued (mTLS), besides their key. With `optional`, a client without one is served, and one with a wrong one is not.",
      ),
      admin: defaulted(
        flag(),
        true,
        "Whether the admin listener uses the certificate as well, and asks for those of clients if they are required.",
      ),
    },
    "TLS 1.2 and 1.3 for the listeners. Without it, they speak plain HTTP. See [edge.md](edge.md).",
  ),
  data_dir: defaulted(text(4096), defaultDataDir, "The folder for durable data, relative to the working directory."),
  store: defaulted(
    backend("sqlite", ["postgres", "postgresql"]),
    "sqlite",
    "Where keys, receipts and the rest are stored: a file in `data_dir`, or a PostgreSQL (15 or later) that several machines share. Its address may name a primary and its standbys (`postgres://user:password@db1:5432,db2:5432/database`): whichever takes writes is used.",
  ),
  store_connections: defaulted(
    integer(connectionsMin, 100),
    12,
    "How many connections a process may have to PostgreSQL: one for receipts, a quarter for queries of the admin API, the others for calls. See [scale.md](scale.md).",
  ),
  read_store: defaulted(
    backend("store", ["postgres", "postgresql"]),
    "store",
    "A standby of the PostgreSQL in `store`, which then answers queries for usage and receipts. While it does not answer, `store` does.",
  ),
  state: defaulted(
    backend("memory", ["redis", "rediss", "redis+sentinel", "rediss+sentinel"]),
    "memory",
    "Where limits and cool-downs are shared between replicas: Redis or Valkey. Its address may name a primary and its replicas (`redis://host1:6379,host2:6379`), or Sentinels and the name that the primary has there (`redis+sentinel://host1:26379,host2:26379/name`). With `memory`, replicas share them through PostgreSQL.",
  ),
  state_loss: defaulted(
    choice(["split", "open", "closed"]),
    "split",
    "What each replica grants while shared limits cannot be reached: its share of a limit, everything, or nothing. Budgets are always enforced.",
  ),
  expose: defaulted(
    choice(["all", "none"]),
    "all",
    "`none` hides `x-sluice-channel` and `x-sluice-attempts` from clients, and the names of channels in the list of models.",
  ),
  cors: optionalGroup(
    {
      origins: required(
        list(origin(), 1000),
        'The origins of web pages that may call the gateway, as browsers send them, such as `https://app.example.com`; `"*"` allows any. A page needs a key like any other client, and whoever can read the page can read its key.',
      ),
    },
    "Which web pages may read responses (CORS). Without it, browsers let none.",
  ),
  allow_private: defaulted(flag(), false, "Whether channels that are added through the admin API may have private addresses."),
  groups: groups(
    groupShape,
    "Groups of keys, such as organisations, teams and projects, which limit what their keys use together. More are made with `sluice groups create`. See [groups.md](groups.md).",
  ),
  sign_in: group(signInShape, "How people sign in to the admin API. See [sign-in.md](sign-in.md)."),
  keys: groups(keyShape, "The client keys. If there are none, the first start creates one and prints it."),
  token_issuers: groups(
    tokenIssuerShape,
    "Issuers whose tokens (JWT) clients may send in place of a key, as service accounts and CI jobs do. See [keys.md](keys.md#tokens-of-an-issuer).",
  ),
  channels: groups(channelShape, "The upstreams that serve calls."),
  routing: group(
    {
      attempts: defaulted(integer(1, 10), 3, "How many attempts one call may make."),
      hedge_after: defaulted(
        orAuto(orOff(duration())),
        "auto",
        "After this much silence, a second attempt starts on another channel while the first continues. `auto`: twice the deployment's 95th percentile of the time to first content, at least 5 s, once twenty calls are known; until then 15 s, and not for requests that ask for reasoning.",
      ),
      rescue: defaulted(
        choice(["auto", "continue", "error"]),
        "auto",
        "What happens to a text that breaks off after part of it was sent. It is continued once by a channel with the same upstream model (`auto`), or by any channel of the route (`continue`). With `error`, or if that fails, the stream ends with an error.",
      ),
      wait: defaulted(
        orOff(duration(1, 600_000)),
        "off",
        "How long a call may wait if every channel cools down or is full, instead of being rejected at once. Keys take turns. Even if this is off, calls wait up to two seconds for a free slot of a full channel, the newest first.",
      ),
      deadlines: group(
        {
          stream: defaulted(duration(), "120s", "Over all attempts, until a stream's first content."),
          whole: defaulted(
            duration(),
            "600s",
            "Over all attempts, for an answer that is not streamed. A client that states a shorter time in `x-stainless-timeout`, as the official ones do, gets an error within that.",
          ),
        },
        "How long a client may wait, over all attempts.",
      ),
    },
    "How calls are retried, hedged and continued.",
  ),
  prices: groups(
    {
      provider: optional(text(64), "The provider that the price applies to, as in a channel's `provider`.", "every provider of the model"),
      model: required(text(), "The upstream's name of the model. A `*` stands for any run of characters."),
      from: optional(moment(), "The first day on which the price applies.", "always"),
      input: optional(dollars(rateNanosMax), "Dollars per million prompt tokens."),
      cached_input: optional(dollars(rateNanosMax), "Of those, dollars per million that came from a cache.", "as `input`"),
      cache_write: optional(dollars(rateNanosMax), "Of those, dollars per million that were written to a cache.", "as `input`"),
      cache_write_hour: optional(
        dollars(rateNanosMax),
        "Of those, dollars per million that were written to a cache for an hour.",
        "as `cache_write`",
      ),
      output: optional(dollars(rateNanosMax), "Dollars per million completion tokens."),
      reasoning: optional(dollars(rateNanosMax), "Of those, dollars per million that were reasoning.", "as `output`"),
      audio_input: optional(dollars(rateNanosMax), "Dollars per million audio tokens of prompts.", "as `input`"),
      audio_output: optional(dollars(rateNanosMax), "Dollars per million audio tokens of answers.", "as `output`"),
      characters: optional(dollars(rateNanosMax), "Dollars per million spoken characters."),
      second: optional(dollars(rateNanosMax), "Dollars per transcribed second of audio."),
      image: optional(dollars(rateNanosMax), "Dollars per generated image."),
      call: optional(dollars(rateNanosMax), "Dollars per call."),
      web_search: optional(dollars(rateNanosMax), "Dollars per search of the web that the upstream makes, such as `0.01`."),
      searched_call: optional(dollars(rateNanosMax), "Dollars per call in which it searches the web, instead of `web_search`."),
      file_search: optional(dollars(rateNanosMax), "Dollars per search in files that the upstream keeps."),
      long_above_tokens: optional(integer(1, 1e9), "A prompt of more tokens than this has the `long_…` rates."),
      long_input: optional(dollars(rateNanosMax), "Dollars per million tokens of a long prompt.", "as `input`"),
      long_cached_input: optional(dollars(rateNanosMax), "Of those, dollars per million that came from a cache.", "as `cached_input`"),
      long_cache_write: optional(dollars(rateNanosMax), "Of those, dollars per million that were written to a cache.", "as `cache_write`"),
      long_cache_write_hour: optional(
        dollars(rateNanosMax),
        "Of those, dollars per million that were written to a cache for an hour.",
        "as `cache_write_hour`",
      ),
      long_output: optional(dollars(rateNanosMax), "Dollars per million completion tokens for a long prompt.", "as `output`"),
    },
    "What models cost, if the prices that come with the gateway are wrong for you or lack a model. A price that is not given is unknown, not zero.",
  ),
  receipts: group(
    {
      sync: defaulted(
        flag(),
        false,
        "Whether the end of an answer waits until its receipt would survive a power failure, and not only a crash of the process.",
      ),
      keep: defaulted(duration(dayMs, keepMaxMs), "90d", "How long single receipts are kept. Daily sums are kept forever."),
      keep_hours: defaulted(duration(dayMs, keepMaxMs), "400d", "How long hourly sums are kept."),
      sample: defaulted(
        orOff(positiveNumber(1)),
        1,
        "The share of plain successes whose receipts are stored: calls that the first attempt answered, at a certain cost. All others always are, and sums and budgets count every call.",
      ),
    },
    "How receipts are written, and how long they are kept.",
  ),
  server: group(
    {
      body_limit: defaulted(size(1024, 1024 ** 3), "64MiB", "The largest request body that is not an upload."),
      audio_limit: defaulted(size(1024, 8 * 1024 ** 3), "25MiB", "The largest audio file that can be transcribed."),
      speech_limit: defaulted(integer(1, 1e6), 4096, "The longest text that can be spoken, in characters."),
      long_audio_limit: defaulted(size(1024, 8 * 1024 ** 3), "500MiB", "The largest audio file where `long_audio: split` applies."),
      long_speech_limit: defaulted(integer(1, 1e7), 100_000, "The longest text where `long_input: split` applies."),
      keep_alive: defaulted(
        orOff(duration()),
        "15s",
        "After this much silence in a stream, a comment line is sent to keep the connection open.",
      ),
      early_headers: defaulted(
        orOff(duration()),
        "15s",
        "After this much silence, a waiting stream is sent its status line and headers, so that proxies do not give up.",
      ),
      write_stall: defaulted(duration(), "60s", "A client that reads no bytes for this long is disconnected."),
      body_read: defaulted(duration(), "120s", "How long a client may take to send a body that is not an upload."),
      upload_read: defaulted(
        duration(),
        "300s",
        "How long a client may take to upload up to 25 MiB; larger uploads get proportionally more time. An upload that stalls for 20 seconds is ended sooner.",
      ),
      uploads: defaulted(
        integer(1, 1e6),
        16,
        "Uploads that are read at the same time, over all clients; further ones get 503. While another key waits, no key keeps more than its share.",
      ),
      in_flight: optional(
        integer(1, 1e6),
        "Requests at the same time, over all clients; further ones get 503.",
        "(open files allowed − 256) / 2, at most 10000",
      ),
      wrong_keys: defaulted(
        orOff(integer(1, 1e6)),
        30,
        "How many wrong keys one address may send in a minute before it gets 429 for them. A valid key is still served.",
      ),
      connections_per_address: defaulted(
        orOff(integer(1, 1e6)),
        "off",
        "How many connections one address (or one IPv6 /64 network) may have to each worker at the same time; further ones are reset. Those of `trusted_proxies` are not counted.",
      ),
      trusted_proxies: optional(
        list(network(), 1000),
        "The proxies in front of the gateway, whose word about the address of a client is taken: for `wrong_keys`, for logins, and in the audit log. `unix` stands for whoever connects through a unix socket. What anybody else says in such a header is ignored.",
        "none",
      ),
      forwarded_header: defaulted(
        choice(["x-forwarded-for", "forwarded"]),
        "x-forwarded-for",
        "The header that these proxies write. The other one is ignored: a proxy that writes one may pass on the other as a client made it up.",
      ),
      open_audio_lists: defaulted(
        flag(),
        false,
        "Whether the lists of models for speech and of their voices are given without a key, because Open WebUI asks for them so. Anybody who reaches the gateway can then read these names.",
      ),
      linger: defaulted(duration(0), "5s", "How long the gateway still accepts calls after SIGTERM, so that load balancers notice."),
      drain: defaulted(
        duration(0),
        "120s",
        "How long running calls may continue after that. Those that have not ended are told so in the last tenth of it, which is 5 seconds at most.",
      ),
    },
    "How the gateway behaves towards its clients.",
  ),
  responses: group(
    {
      keep_items: defaulted(
        orOff(duration(1_000, 7 * dayMs)),
        "1h",
        "How long the items of an answer (texts, reasoning, calls) are kept in memory after they were last used, so that the client can refer to them by their ids, as the AI SDK does by default. At most 32 MiB are kept; replicas share them through `state` if that is Redis. Nothing is kept where the client says `store: false`, or where the channel speaks the Responses API.",
      ),
    },
    "What is special about `POST /v1/responses`.",
  ),
  metrics: group(
    {
      enabled: defaulted(flag(), true, "Whether `GET /metrics` of the admin listener shows metrics in the format of Prometheus."),
      public: defaulted(
        flag(),
        false,
        "Whether it does so without a token. Otherwise it takes an admin token, of a viewer too, or the one below.",
      ),
      token: optional(secret(), "A bearer token that opens `/metrics` and nothing else, at least 16 characters. Take it from a variable."),
      data_port: defaulted(
        flag(),
        false,
        "Whether the clients' listener has `/metrics` as well, for the token above, or for everybody with `public`.",
      ),
      key_labels: defaulted(
        flag(),
        false,
        "Whether requests, tokens and money are also counted for each client key. At most a thousand keys are told apart.",
      ),
      budgets: defaulted(
        flag(),
        false,
        "Whether the budgets of keys are shown, and how much of each is left. They are looked up once a minute.",
      ),
    },
    "Metrics for Prometheus. See [observability.md](observability.md).",
  ),
  otel: optionalGroup(
    {
      endpoint: required(
        address({ example: "http://127.0.0.1:4318", keyPlace: "a token belongs in headers" }),
        "The OTLP address of a collector, such as `http://127.0.0.1:4318`. `/v1/traces` and `/v1/metrics` are added to it.",
      ),
      headers: optional(
        mapOf(headerName(), headerValue(), "map of headers"),
        "Headers for every export, such as a token. Take secrets from variables.",
      ),
      traces: defaulted(flag(), true, "Whether calls are exported as traces."),
      metrics: defaulted(flag(), true, "Whether metrics are exported, those of Prometheus and those of the GenAI conventions."),
      service_name: defaulted(text(128), "sluice", "The `service.name` of all that is exported."),
      sample: defaulted(
        orOff(positiveNumber(1)),
        0.05,
        "The share of calls whose trace is exported whatever happens, if the client does not say. Failures, calls with a failed attempt, and slow ones always are.",
      ),
      sample_per_second: defaulted(
        orOff(integer(1, 1e6)),
        100,
        "The most of these traces in a second, in each worker. Failures, calls with a failed attempt, and slow ones are not counted.",
      ),
      slow_after: defaulted(duration(), "10s", "A call whose client waited this long for its first content is slow."),
      interval: defaulted(duration(1000), "60s", "How often metrics are exported."),
      propagate: defaulted(flag(), true, "Whether upstreams get a `traceparent` header."),
      conventions: defaulted(
        choice(["latest", "1.41", "1.36"]),
        "latest",
        "The version of the GenAI semantic conventions that names and attributes follow.",
      ),
    },
    "Traces and metrics for OpenTelemetry, by OTLP over HTTP. Without it, nothing is exported. See [observability.md](observability.md).",
  ),
  webhooks: groups(
    {
      url: required(
        secretAddress({ example: "https://hooks.example.com/sluice", keyPlace: "the receiver knows us by the signature" }),
        "Where notices are sent, by POST. Its path and query are not shown, because with many receivers they are a secret.",
      ),
      secret: required(
        secret(),
        "Signs each notice, in the way of Standard Webhooks: `whsec_` and base64, or any text of at least 16 characters. Take it from a variable.",
      ),
      events: optional(list(choice(noticeTypes), 10), "The notices that it gets.", "all"),
    },
    "Who is told when a budget is nearly spent, a channel goes down, a key is about to expire, or costs jump. See [observability.md](observability.md).",
  ),
  log: group(
    {
      level: defaulted(
        choice(["debug", "info", "warn", "error"]),
        "info",
        "The lowest level that is logged. Prompts and answers are never logged.",
      ),
      format: defaulted(
        choice(["auto", "json", "text"]),
        "auto",
        "One JSON object on each line, or a text for a person. `auto` writes text to a terminal, and JSON to everything else.",
      ),
    },
    "Settings of the log.",
  ),
});

/** A valid file with all defaults filled in. */
export type ConfigFile = z.infer<typeof fileSchema>;
export type ChannelEntry = ConfigFile["channels"][number];
export type KeyEntry = ConfigFile["keys"][number];
export type GroupEntry = ConfigFile["groups"][number];
export type LimitsEntry = NonNullable<KeyEntry["limits"]>;
export type PriceEntry = ConfigFile["prices"][number];
