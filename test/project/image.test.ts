// Needs: slow, models. It makes the images of deploy/Dockerfile as directories, and runs a model in one of them.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import type { Gateway } from "../support/gateway.ts";
import { ImageLayout, imageProblem } from "../support/image-layout.ts";
import { clientKey } from "../support/rig.ts";
import manifest from "../../package.json" with { type: "json" };

setDefaultTimeout(300_000);

if (imageProblem !== null) console.error(`The entry points of the images are not tried: ${imageProblem}.`);

describe.each([
  ["sluice", [{ name: "embedded", provider: "embedded", tier: 9 }], "embedded/stories-15m"],
  ["slim", [], "m"],
] as const)("the entry point of the image %s, as its user in a root that cannot be written", (name, channels, model) => {
  let upstream: Chaos;
  let image: ImageLayout;
  let gateway: Gateway;
  const env = { SLUICE_CONFIG: "/etc/sluice/sluice.yaml", CLIENT_KEY_FILE: "/run/secrets/client-key" };

  beforeAll(async () => {
    if (imageProblem !== null) return;
    upstream = await startChaos({ name: "main" });
    image = new ImageLayout(name);
    // JSON is YAML. The data folder is the default one, below the working directory of the image.
    const config = {
      keys: [{ name: "tester", key: "${CLIENT_KEY}" }],
      channels: [{ name: "main", base_url: upstream.url, models: ["m"] }, ...channels],
      server: { linger: "0s" },
    };
    image.put("/etc/sluice/sluice.yaml", JSON.stringify(config));
    image.put("/run/secrets/client-key", `${clientKey}\n`);
    gateway = await image.start(["start", "--listen", "127.0.0.1:0"], env);
  });

  afterAll(async () => {
    await gateway?.kill();
    await upstream?.[Symbol.asyncDispose]();
    image?.[Symbol.dispose]();
  });

  test.skipIf(imageProblem !== null)("answers chats, and its health check succeeds", async () => {
    for (const asked of new Set(["m", model])) {
      const reply = await chat(gateway, { model: asked, max_tokens: 8 }, { key: clientKey });
      expect([asked, reply.status]).toEqual([asked, 200]);
    }
    expect(image.checkHealth(gateway.url)).toEqual({ code: 0, text: `${gateway.url} is ready\n` });
    expect(image.checkHealth(upstream.url).code).toBe(1);
    // Whatever it could not write, it would have said.
    expect(gateway.logs.filter(({ level }) => level === "error" || level === "warn")).toEqual([]);
  });

  test.skipIf(imageProblem !== null)("keeps its data in the volume, where the command line finds them", () => {
    expect(image.run(["sluice", "--version"])).toEqual({ code: 0, text: `${manifest.version}\n` });
    const made = image.run(["sluice", "keys", "create", "laptop"], env);
    expect([made.code, made.text]).toEqual([0, expect.stringContaining("sk-gw_")]);
    expect(image.run(["sluice", "keys", "list"], env).text).toContain("laptop");
  });

  test.skipIf(imageProblem !== null)("ends with 0 after SIGTERM", async () => {
    expect(await gateway.stop(60_000)).toBe(0);
    expect(image.checkHealth(gateway.url).code).toBe(1);
  });
});
