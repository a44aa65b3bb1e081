import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clonedInto, installed, lastLine, leave, noClone, noRegistry, run } from "./clean-install.ts";
import { unavailableCode } from "./prove/commands.ts";
import { root } from "./source-tree.ts";

/**
 * Installs the last commit into a folder of its own, as a newcomer does, and tells how much is on the disk afterwards. It ends with 1 if
 * that is more than we allow or if npm warned of anything, and with 69 if there is no registry to be reached.
 */
const megabytesMax = 350;
const folder = mkdtempSync(join(tmpdir(), "sluice-install-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

if (!(await clonedInto(folder))) leave(unavailableCode, noClone);
const { code, text, warnings, isCutOff } = await installed(["npm"], folder);
if (isCutOff) leave(unavailableCode, noRegistry);
if (code !== 0) leave(1, `npm install ended with ${code}: ${lastLine(text)}`);
const kibibytes = Number(/^\d+/.exec((await run(["du", "-sk", folder], root)).text)?.[0]);
const megabytes = Math.round((kibibytes * 1024) / 1e6);
const figure = `${megabytes} MB on disk, at most ${megabytesMax}; ${warnings.length} warnings, at most 0`;
leave(megabytes <= megabytesMax && warnings.length === 0 ? 0 : 1, [...warnings, figure].join("\n"));
