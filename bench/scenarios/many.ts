import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask, askWithImage, models } from "../ask.ts";
import { type Bench, cpuOf, inTurns, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { type Gateway, type GatewayChannel, type GatewaySettings, withKey } from "../gateway.ts";
import { answeredLoop, closedLoop, openLoop, spreadLoop } from "../load.ts";
import { scratch } from "../processes.ts";
import { compared, judged, type Judgement, type Row } from "../report.ts";
import { median, medianRatio, quantile } from "../statistics.ts";
import { farLimits, madeStore, type MadeStore } from "../stored-keys.ts";

/** Keys and channels by the thousand, and large requests: how long a start and a reload take (P12), and what a request costs (P16). */
export const many: Scenario = async (bench) => {
  const { quick } = bench.options;
  const counts = quick
    ? { keys: 50_000, asked: 2_000, projects: 500, channels: 1_000 }
    : { keys: 1_000_000, asked: 20_000, projects: 10_000, channels: 10_000 };
  console.error(`many, making stores of 10,000 and ${counts.keys} keys, in ${counts.projects} projects`);
  const few = await madeStore({ keys: Array.from({ length: 10 }, () => farLimits), projects: 10 });
  const thousands = await madeStore({ keys: [farLimits], strangers: 9_999 });
  const millions = await madeStore({
    keys: Array.from({ length: counts.asked }, () => farLimits),
    strangers: counts.keys - counts.asked,
    projects: counts.projects,
    usageDays: 30,
  });
  return [
    ...(await starts(bench, counts.keys, thousands, millions)),
    ...(await reloads(bench, thousands)),
    ...(await byKeys(bench, counts.keys, few, millions)),
    ...(await answers(bench, counts.keys, millions)),
    ...(await changedGroups(bench)),
    ...(await byChannels(bench, counts.channels)),
    ...(await byBody(bench)),
  ];
};

async function starts(bench: Bench, keyCount: number, thousands: MadeStore, millions: MadeStore): Promise<readonly Row[]> {
  const channels = channelsOf(bench, 100, 10);
  const asked: readonly (readonly [string, GatewaySettings, number])[] = [
    ["an empty store and one channel", { channels: channelsOf(bench, 1, 1) }, 500],
    ["10,000 stored keys and 100 channels", { channels, dataDir: thousands.dataDir }, 2_000],
    [`${keyCount} stored keys and 100 channels`, { channels, dataDir: millions.dataDir }, 2_000],
  ];
  const readyMs = asked.map((): number[] => []);
  const memory = asked.map((): number[] => []);
  for (let round = 1; round <= 3; round += 1) {
    console.error(`many, start, round ${round} of 3`);
    for (const [index, [, settings]] of asked.entries()) {
      const gateway = await bench.gatewayWith({ ...settings, isInstalled: true });
      if (gateway === null) return [];
      readyMs[index]?.push(gateway.readyMs);
      memory[index]?.push(residentBytes(gateway.pid) / 1_000_000);
      await gateway.stop();
    }
  }
  return asked.flatMap(([with_, , limit], index) => [
    row(
      "P12",
      `start to ready, ${with_}`,
      "ms",
      readyMs[index] ?? [],
      judged("gateway", median(readyMs[index] ?? []), { limit, sense: "at most" }),
    ),
    row("", `memory at ready, ${with_}`, "MB", memory[index] ?? [], compared("gateway", median(memory[index] ?? []))),
  ]);
}

async function reloads(bench: Bench, store: MadeStore): Promise<readonly Row[]> {
  const settings = (count: number, keys = 1): GatewaySettings => ({
    channels: channelsOf(bench, count, 10),
    dataDir: store.dataDir,
    keys,
    heard: true,
  });
  const rounds = bench.options.quick ? 3 : 10;
  const measured = async (keys: number): Promise<{ readonly tookMs: readonly number[]; readonly failed: number }> => {
    const gateway = await bench.gatewayWith(settings(100, keys));
    if (gateway === null) return { tookMs: [], failed: Number.NaN };
    console.error(`many, ${rounds} reloads with ${keys} keys in the file`);
    const tookMs: number[] = [];
    const reloading = async (): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        // Long enough for the gateway to have noticed by itself that its file is another one.
        await Bun.sleep(700);
        tookMs.push(await gateway.reload(settings(round % 2 === 0 ? 90 : 100, keys)));
      }
    };
    const load = { perSecond: 200, seconds: Math.ceil(rounds * 0.9) + 2 };
    const [{ requests, statuses }] = await Promise.all([openLoop(gateway, ask("json"), load), reloading()]);
    await gateway.stop();
    if (statuses["200"] !== requests)
      bench.remark(`many: of ${requests} requests during reloads with ${keys} keys in the file came ${JSON.stringify(statuses)}`);
    return { tookMs, failed: requests - (statuses["200"] ?? 0) };
  };
  const usual = await measured(1);
  const full = await measured(10_000);
  return [
    row("P12", "reload with 10,000 stored keys and 100 channels, the slowest", "ms", usual.tookMs, slowest(usual.tookMs)),
    // No bar: so many keys belong in the store, and the file is read by a parser of all of YAML.
    row(
      "",
      "reload with 10,000 keys in the file and 100 channels, the median",
      "ms",
      full.tookMs,
      compared("gateway", median(full.tookMs)),
    ),
    row(
      "P12",
      "requests that failed during those",
      "requests",
      [usual.failed, full.failed],
      judged("gateway", usual.failed + full.failed, { limit: 0, sense: "at most" }),
    ),
  ];
}

function slowest(tookMs: readonly number[]): Judgement {
  return judged("gateway", tookMs.length === 0 ? null : Math.max(...tookMs), { limit: 200, sense: "at most" });
}

async function byKeys(bench: Bench, keyCount: number, few: MadeStore, millions: MadeStore): Promise<readonly Row[]> {
  const { options } = bench;
  const channels = channelsOf(bench, 1, 1);
  const small = await bench.gatewayWith({ channels, dataDir: few.dataDir });
  const large = await bench.gatewayWith({ channels, dataDir: millions.dataDir });
  if (small === null || large === null) return [];
  const variants = { small: withKey(small, few.tokens[0] ?? ""), large: withKey(large, millions.tokens[0] ?? "") };
  const tokens = { small: few.tokens, large: millions.tokens };
  const one = await perRequest(bench, `many, one of 10 and of ${keyCount} keys`, variants);
  const rows = [
    reference("one key of 10", one.small),
    row(
      "P16",
      `CPU per request, one key of ${keyCount}`,
      "us",
      one.large,
      judged("to one of 10", medianRatio(one.large, one.small), { limit: 1.1, sense: "at most" }),
    ),
  ];
  // Nobody has asked with these before: the gateway looks for each in the store.
  const strangers = { perSecond: 200, seconds: 5 };
  const first = await openLoop(variants.large, ask("json"), strangers, millions.tokens.slice(-1_000));
  const again = await answeredLoop(variants.large, ask("json"), strangers);
  for (const [share, name] of [
    [0.5, "p50"],
    [0.99, "p99"],
  ] as const) {
    const [ofFirst, ofAgain] = [quantile(first.wholeMs, share), quantile(again.wholeMs, share)];
    rows.push(
      row(
        "",
        `first call of a key of ${keyCount}, ${name}, 200 a second`,
        "ms",
        [ofFirst],
        compared("minus a known key's", ofFirst - ofAgain),
      ),
    );
  }
  const spread = (name: "small" | "large", seconds: number) =>
    cpuOf(variants[name], () => spreadLoop(variants[name], ask("json"), { tokens: tokens[name], connections: 32, seconds }));
  // The first call of each key asks the store; a gateway at work knows the keys that are used. Each loop begins with the first one again.
  await spread("small", 1);
  for (let seconds = 5, asked = 0; asked < millions.tokens.length && seconds <= 80; seconds *= 2) {
    asked = (await spread("large", seconds)).result.requests;
  }
  const all = await inTurns({ title: "many, all known keys in turn", rounds: options.rounds, variants }, async (_, name) => {
    const { allMicros, result } = await spread(name, options.seconds);
    return allMicros / result.requests;
  });
  rows.push(
    reference("10 keys of 10 in turn", all.small),
    row(
      // No bar: other traffic, and not only more keys (docs/decisions/performance.md).
      "",
      `CPU per request, ${millions.tokens.length} keys of ${keyCount} in turn`,
      "us",
      all.large,
      compared("to all of 10", medianRatio(all.large, all.small)),
    ),
  );
  await Promise.all([small.stop(), large.stop()]);
  return rows;
}

/** What an operator asks of so many keys, in projects, teams and organisations, after a month in which each of them was used. */
async function answers(bench: Bench, keyCount: number, millions: MadeStore): Promise<readonly Row[]> {
  const adminTokenFile = join(scratch, "many-token");
  writeFileSync(adminTokenFile, adminToken, { mode: 0o600 });
  const gateway = await bench.gatewayWith({ channels: channelsOf(bench, 1, 1), dataDir: millions.dataDir, adminTokenFile });
  if (gateway === null) return [];
  const rows: Row[] = [];
  for (const [name, path] of questions) {
    console.error(`many, ${name}`);
    const tookMs = await askedMs(bench, gateway, path);
    rows.push(
      row("P22", `${name}, of ${keyCount} keys`, "ms", tookMs, judged("gateway", median(tookMs), { limit: 1_000, sense: "at most" })),
    );
  }
  await gateway.stop();
  return rows;
}

/** Groups are in the memory of each process: what others notice while one of very many changes, and while thousands are made at once. */
async function changedGroups(bench: Bench): Promise<readonly Row[]> {
  const adminTokenFile = join(scratch, "many-token");
  writeFileSync(adminTokenFile, adminToken, { mode: 0o600 });
  const { dataDir, tokens } = await madeStore({ keys: [farLimits], projects: 9_000 });
  const started = await bench.gatewayWith({ channels: channelsOf(bench, 1, 1), dataDir, adminTokenFile });
  if (started === null) return [];
  const gateway = withKey(started, tokens[0] ?? "");
  console.error("many, changes of groups");
  const changed = async (group: string, change: object): Promise<void> => sent(gateway, "PATCH", `/groups/${group}`, change);
  const load = { perSecond: 200, seconds: bench.options.quick ? 5 : 20 };
  const quiet = await answeredLoop(gateway, ask("json"), load);
  const loop = answeredLoop(gateway, ask("json"), load);
  for (let second = 0; second < load.seconds; second += 1) {
    await changed(`grp_project${second}`, { limits: { rpm: 1e6 + second } });
    await Bun.sleep(1_000);
  }
  const changing = await loop;
  const text = JSON.stringify({ groups: Array.from({ length: 4_000 }, (_, at) => ({ name: `new-${at}`, parent: `team-${at % 900}` })) });
  const took = async (work: Promise<void>): Promise<number> => {
    const beganMs = performance.now();
    await work;
    return performance.now() - beganMs;
  };
  let isApplied = false;
  const applying = took(sent(gateway, "POST", "/resources/apply", { file: "groups.yaml", text })).finally(() => (isApplied = true));
  const freezeMs: number[] = [];
  for (let at = 0; !isApplied; at += 1) {
    freezeMs.push(await took(changed("grp_project8999", { frozen: at % 2 === 0 })));
    await Bun.sleep(100);
  }
  const applied = await applying;
  await gateway.stop();
  const [before, during] = [quantile(quiet.wholeMs, 0.99), quantile(changing.wholeMs, 0.99)];
  return [
    row("", "p99 with 9,990 groups, 200 a second", "ms", [before], compared("gateway", before)),
    row("", "p99 of the same while one group a second is changed", "ms", [during], compared("gateway", during)),
    row("", "4,000 new groups applied from a file", "ms", [applied], compared("gateway", applied)),
    row("", "a group frozen meanwhile, the slowest", "ms", freezeMs, compared("gateway", Math.max(...freezeMs))),
  ];
}

async function sent({ adminUrl }: Gateway, method: string, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
  const response = await fetch(`${adminUrl}/admin/api${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${text.slice(0, 200)}`);
}

async function askedMs(bench: Bench, { adminUrl }: Gateway, path: string): Promise<readonly number[]> {
  const tookMs: number[] = [];
  for (let round = 0; round < (bench.options.quick ? 3 : 7); round += 1) {
    const beganMs = performance.now();
    const response = await fetch(`${adminUrl}/admin/api${path}`, { headers: { authorization: `Bearer ${adminToken}` } });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${text.slice(0, 200)}`);
    tookMs.push(performance.now() - beganMs);
  }
  return tookMs;
}

const adminToken = "0d5e6a1b7c9f48e2a3b4c5d6e7f80912a3b4";

const questions: readonly (readonly [name: string, path: string])[] = [
  ["usage of all by day, over a month", "/usage?by=day&since=30d"],
  ["usage of an organisation by day, over a month", "/usage?by=day&group=organisation-0&since=30d"],
  ["usage of an organisation by model, over a month", "/usage?by=model&group=organisation-0&since=30d"],
  ["usage of a project by key, over a month", "/usage?by=key&group=project-7&since=30d"],
  ["usage of a team by key, over a month", "/usage?by=key&group=team-7&since=30d"],
  ["usage of every group, over a month", "/usage?by=group&since=30d"],
  ["the overview over a month", "/overview?span=30d"],
  ["the overview over 90 days", "/overview?span=90d"],
  ["the first page of the keys", "/keys?limit=50"],
  ["the first page of the keys of an organisation", "/keys?limit=50&group=organisation-0"],
  ["keys by a part of their names", "/keys?limit=50&search=stranger-7777"],
  ["all groups", "/groups"],
];

/** So many channels do not fit into a file: they are in the store. */
async function byChannels(bench: Bench, count: number): Promise<readonly Row[]> {
  const adminTokenFile = join(scratch, "many-token");
  writeFileSync(adminTokenFile, adminToken, { mode: 0o600 });
  const withStored = async (forEachModel: number, channels = count) => {
    const { dataDir } = await madeStore({ keys: [], channels: channelsOf(bench, channels, forEachModel) });
    return bench.gatewayWith({ channels: [], allowPrivate: true, dataDir, adminTokenFile, isInstalled: true });
  };
  const small = await withStored(10, 10);
  const large = await withStored(10);
  const alike = await withStored(count);
  if (small === null || large === null || alike === null) return [];
  const memory = [large, alike].map(({ pid }) => residentBytes(pid) / 1_000_000);
  const readyMs = [large, alike].map((gateway) => gateway.readyMs);
  const listMs = await askedMs(bench, large, "/channels");
  const problemsMs = await askedMs(bench, large, "/problems");
  const cost = await perRequest(bench, `many, 10 and ${count} channels`, { small, large, alike });
  await Promise.all([small.stop(), large.stop(), alike.stop()]);
  const stored = `${count} stored channels`;
  return [
    row("P12", `start to ready, ${stored}`, "ms", readyMs, judged("gateway", median(readyMs), { limit: 2_000, sense: "at most" })),
    row("", `memory at ready, ${stored}`, "MB", memory, compared("gateway", median(memory))),
    row("", `the list of ${stored}`, "ms", listMs, judged("gateway", median(listMs), { limit: 1_000, sense: "at most" })),
    row("", `what is wrong now, ${stored}`, "ms", problemsMs, judged("gateway", median(problemsMs), { limit: 1_000, sense: "at most" })),
    reference("10 channels for one model", cost.small),
    row(
      "P16",
      `CPU per request, ${stored}, ten for each model`,
      "us",
      cost.large,
      judged("to 10 channels", medianRatio(cost.large, cost.small), { limit: 1.1, sense: "at most" }),
    ),
    row(
      // No bar: each call goes to another channel, as with the keys in turn.
      "",
      `CPU per request, ${stored}, all for the same model`,
      "us",
      cost.alike,
      compared("to 10 channels", medianRatio(cost.alike, cost.small)),
    ),
  ];
}

/**
 * What a megabyte of a request costs, where it is the only one and where there are twenty. A large body does not fit into the processor's
 * caches, and takes memory that the system has to clear first: that is what the floor's growth shows, which is not ours to change.
 */
async function byBody(bench: Bench): Promise<readonly Row[]> {
  const floor = await bench.fresh("floor");
  const gateway = await bench.gatewayWith({ channels: channelsOf(bench, 1, 1) });
  if (floor === null || gateway === null) return [];
  const variants = { floorSmall: floor, small: gateway, floorLarge: floor, large: gateway };
  const cost = await inTurns({ title: "many, bodies of 1 and 20 MB", rounds: bench.options.rounds, variants }, async (target, name) => {
    const megabytes = name === "large" || name === "floorLarge" ? 20 : 1;
    const amount = { connections: 2, seconds: bench.options.seconds };
    const { allMicros, result } = await cpuOf(target, () => closedLoop(target, askWithImage(megabytes * 1_000_000), amount));
    return allMicros / result.requests / megabytes;
  });
  await Promise.all([floor.stop(), gateway.stop()]);
  const growth = (large: readonly number[], small: readonly number[]): readonly number[] => large.map((value, at) => value / small[at]!);
  return [
    {
      ...row("", "CPU per megabyte of a chat, 1 MB each", "us", cost.small, compared("gateway", median(cost.small))),
      raw: { floor: cost.floorSmall, gateway: cost.small },
    },
    {
      bar: "P16",
      measure: "CPU per megabyte of a chat, 20 MB each",
      unit: "us",
      raw: { floor: cost.floorLarge, gateway: cost.large },
      judgement: judged(
        "growth from 1 MB, to the floor's",
        medianRatio(growth(cost.large, cost.small), growth(cost.floorLarge, cost.floorSmall)),
        { limit: 1.1, sense: "at most" },
      ),
    },
  ];
}

async function perRequest<Name extends string>(bench: Bench, title: string, variants: Parameters<typeof inTurns<Name>>[0]["variants"]) {
  const { options } = bench;
  await inTurns({ title: `${title}, warm-up`, rounds: 1, variants }, async (target) => {
    await closedLoop(target, ask("json"), { connections: 32, seconds: options.quick ? 3 : 4 });
    return 0;
  });
  return inTurns({ title, rounds: options.rounds, variants }, async (target) => {
    const amount = { connections: 32, seconds: options.seconds };
    const { allMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), amount));
    return allMicros / result.requests;
  });
}

/** The first channels serve the model that is asked for, the others models of their own, as many channels for each. */
function channelsOf(bench: Bench, count: number, forEachModel: number): readonly GatewayChannel[] {
  const port = bench.upstream.ports[0] ?? 0;
  return Array.from({ length: count }, (_, index) => {
    const group = Math.floor(index / forEachModel);
    return { name: `up-${index}`, port, models: [group === 0 ? models.json : `other-${group}`] };
  });
}

/** What the next lines are compared with. */
function reference(what: string, values: readonly number[]): Row {
  return row("", `CPU per request, ${what}`, "us", values, compared("gateway", median(values)));
}

function row(bar: string, measure: string, unit: string, values: readonly number[], judgement: Judgement): Row {
  return { bar, measure, unit, raw: { gateway: values }, judgement };
}
