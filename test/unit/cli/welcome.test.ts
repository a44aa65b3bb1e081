import { expect, test } from "bun:test";
import { welcome, type WelcomeFacts } from "../../../src/cli/process/welcome.ts";

const facts: WelcomeFacts = {
  url: "http://127.0.0.1:1",
  configFile: "sluice.yaml",
  madeKey: null,
  admin: null,
  keyNames: [],
  storedKeys: 0,
  channels: [],
  variables: [],
  firstModel: "m",
  onlyLocal: false,
  tryModels: { transcription: null, speech: null },
};

test("a greeting names the first keys and channels, says how many more there are, and shows problems first", () => {
  const channels = Array.from({ length: 10_000 }, (_, at) => ({
    name: `c${at}`,
    host: "h",
    models: 1,
    trouble: at === 9_000 ? "its models could not be listed" : null,
  }));
  const keyNames = Array.from({ length: 10_000 }, (_, at) => `k${at}`);
  const text = welcome({ ...facts, channels, keyNames });
  expect(text.length).toBeLessThan(4_000);
  expect(text).toContain("Keys: k0, k1, ");
  expect(text.match(/and 9970 more/g)).toHaveLength(2);
  expect(text).toContain("c9000 (h): its models could not be listed\n  c0 (h): 1 model\n");
});

test("a greeting of few names them all, as they stand in the file", () => {
  const channels = ["b", "a"].map((name) => ({ name, host: "h", models: null, trouble: null }));
  expect(welcome({ ...facts, channels, keyNames: ["one", "two"] })).toContain("  b (h): any model\n  a (h): any model\n\n");
});

test("a greeting names the commands with the options for this store", () => {
  const made = (configFile: string | null): string => welcome({ ...facts, configFile, madeKey: "sk-gw_x" });
  const known = (configFile: string | null): string => welcome({ ...facts, configFile, storedKeys: 2 });
  expect(made(null)).toContain("sluice keys create NAME\n");
  expect(made("/etc/sluice.yaml")).toContain("sluice keys create NAME --config /etc/sluice.yaml\n");
  expect(made("it's here.yaml")).toContain("sluice keys create NAME --config 'it'\\''s here.yaml'\n");
  expect(known("sluice.yaml")).toContain("(sluice keys list --config sluice.yaml)\n");
  expect(known("sluice.yaml")).toContain("sluice keys create NAME --config sluice.yaml\n");
  const admin = { url: "http://127.0.0.1:2", bootstrap: "/data/bootstrap-token" };
  expect(welcome({ ...facts, admin })).toContain("sluice accounts create NAME --role admin --config sluice.yaml\n");
  expect(welcome({ ...facts, admin: { ...admin, bootstrap: null } })).not.toContain("account");
});

test("a greeting names a few of the variables that add a channel, and where the others are", () => {
  const variables = Array.from({ length: 25 }, (_, at) => `KEY_${at}`);
  const text = welcome({ ...facts, variables });
  expect(text).toContain("such as KEY_0=… sluice start");
  expect(text).toContain("(also known: KEY_1, KEY_2, KEY_3, KEY_4, KEY_5, KEY_6 and 18 more, see docs/configuration.md), or");
});

test("a greeting says which models of this machine are not installed, where no others answer", () => {
  const channels = [{ name: "embedded", host: "-", models: 1, trouble: null }];
  const local = (tryModels: WelcomeFacts["tryModels"]): string =>
    welcome({ ...facts, channels, onlyLocal: true, variables: ["KEY"], tryModels });
  const hint = "is installed on this machine: sluice models list says how to get one.";
  expect(local({ transcription: null, speech: null })).toContain(`No model for transcription or speech ${hint}`);
  expect(local({ transcription: "ear", speech: null })).toContain(`No model for speech ${hint}`);
  expect(local({ transcription: "ear", speech: "mouth" })).not.toContain("No model for");
  expect(welcome({ ...facts, channels })).not.toContain("No model for");
});
