import { warning, type Finding, type Path } from "./problem.ts";
import { isGroup } from "../kinds.ts";
import { isLoopback } from "../listen.ts";
import type { ConfigFile } from "../schema.ts";
import { tagsCharacters, tagsCharactersMax } from "../../keys/budget-selector.ts";

/** Whether a setting is in the file. */
type Wrote = (path: Path) => boolean;

/** Warnings about settings that may not do what is expected of them. `given` is the file before defaults. */
export function configWarnings(file: ConfigFile, given: unknown): Finding[] {
  const wrote: Wrote = (path) => path.reduce<unknown>(member, given) !== undefined;
  const findings: Finding[] = [];
  for (const [at, channel] of file.channels.entries()) {
    const path = ["channels", at];
    const { stream, whole } = file.routing.deadlines;
    const firstContent = [...path, "timeouts", "first_content"];
    if (channel.timeouts.first_content > stream && wrote(firstContent)) findings.push(outlived(firstContent, "stream"));
    const firstByte = [...path, "timeouts", "first_byte"];
    if (channel.timeouts.first_byte > whole && wrote(firstByte)) findings.push(outlived(firstByte, "whole"));
    findings.push(...ofTags(channel, path));
  }
  if (file.channels.length === 0) {
    findings.push(warning(["channels"], "there are no channels, so every request will be rejected", "add one under channels:"));
  }
  if (!isLoopback(file.listen.host) && file.tls === undefined) {
    findings.push(
      warning(
        ["listen"],
        "other machines can connect, and keys and prompts are sent unencrypted",
        "set tls, put a TLS proxy in front, or listen on 127.0.0.1",
      ),
    );
  }
  if (file.admin !== null && !isLoopback(file.admin.host) && !file.admin_tls && file.tls?.admin !== true) {
    findings.push(
      warning(
        ["admin"],
        "other machines can connect, and passwords and tokens are sent unencrypted",
        "set tls, put a TLS proxy in front and set admin_tls: true, or listen on 127.0.0.1",
      ),
    );
  }
  return [...findings, ...ofListeners(file, wrote), ...ofMetrics(file, wrote), ...ofCollector(file.otel?.endpoint ?? null)];
}

/** Only a warning, because files with such tags were accepted once. The store refuses them. */
function ofTags({ name, tags = [] }: ConfigFile["channels"][number], path: Path): Finding[] {
  const characters = tagsCharacters({ name, tags });
  if (tags.length === 0 || characters <= tagsCharactersMax) return [];
  const reason = `the channel's name and its tags have ${characters} characters together, and budgets do not see the tags after the first ${tagsCharactersMax}`;
  return [warning([...path, "tags"], reason, `shorten them to ${tagsCharactersMax}`)];
}

function ofListeners({ listen, admin }: ConfigFile, wrote: Wrote): Finding[] {
  if (listen.path !== undefined) return [];
  const findings: Finding[] = [];
  if (wrote(["listen_mode"])) {
    const fix = "remove it, or listen on a socket, as in unix:/run/sluice/sluice.sock";
    findings.push(warning(["listen_mode"], "this is for a unix socket, and `listen` is a port", fix));
  }
  if (admin !== null && admin.port !== 0 && admin.port === listen.port && meet(admin.host, listen.host)) {
    // The start would say that another program has the port.
    findings.push(
      warning(["admin"], `this is where clients connect: listen has port ${listen.port} too`, "give it a port of its own, or off"),
    );
  }
  return findings;
}

function meet(one: string, other: string): boolean {
  return one === other || [one, other].some((host) => host === "0.0.0.0" || host === "::");
}

/** Metrics that somebody has set up and nobody can ask for. */
function ofMetrics({ metrics, admin, otel }: ConfigFile, wrote: Wrote): Finding[] {
  const asked = ["token", "public", "data_port"];
  // What is exported has labels of keys, and budgets, all the same.
  const named = (otel?.metrics === true ? asked : [...asked, "key_labels", "budgets"]).find((name) => wrote(["metrics", name]));
  if (named === undefined) return [];
  const path = ["metrics", named];
  if (!metrics.enabled) return [warning(path, "this has no effect while metrics.enabled is false", "remove it, or remove metrics.enabled")];
  if (admin !== null || metrics.data_port) return [];
  return [
    warning(path, "nobody can ask for the metrics: the admin listener is off", "set metrics.data_port: true, or turn that listener on"),
  ];
}

function ofCollector(endpoint: string | null): Finding[] {
  const path = ["otel", "endpoint"];
  if (endpoint === null) return [];
  if (/\/v1\/(?:traces|metrics|logs)$/.test(endpoint))
    return [warning(path, "`/v1/traces` and `/v1/metrics` are added to this address", "leave out what begins with /v1")];
  if (new URL(endpoint).port !== "4317") return [];
  return [warning(path, "collectors speak gRPC on port 4317, and the gateway speaks HTTP", "use port 4318 of the collector")];
}

function outlived(path: Path, deadline: string): Finding {
  return warning(path, `routing.deadlines.${deadline} is shorter and applies first`, "raise that deadline as well");
}

function member(value: unknown, step: string | number): unknown {
  if (Array.isArray(value)) return typeof step === "number" ? value[step] : undefined;
  return isGroup(value) ? value[step] : undefined;
}
