import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { copied, environmentOf, execForm, healthCommand, inContext, lastOf, stageNamed, type ImageStage } from "./dockerfile.ts";
import { Gateway } from "./gateway.ts";

/**
 * An image of deploy/Dockerfile as a plain directory, made by following its instructions without a container engine. Its base is the
 * system of this machine: the libraries alone for an image that has no shell, programs too for the others.
 */
export class ImageLayout implements Disposable {
  readonly #built = new Map<string, string>();
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-image-"));
  readonly #root: string;
  readonly #stage: ImageStage;
  readonly #mounts: readonly string[];

  constructor(name: string) {
    this.#stage = stageNamed(name);
    this.#root = this.#build(this.#stage);
    const base = this.#stage.base.includes("distroless") ? libraries : [...libraries, "usr/bin", "bin"];
    const link = join(this.#root, "app/node_modules");
    const packages = existsSync(link) ? [`${join(root, "node_modules")}:app/node_modules`] : [];
    rmSync(link, { force: true });
    this.#mounts = [...base.map((path) => `/${path}:${path}`), "/proc:proc", "/dev:dev", ...packages];
    for (const folder of ["tmp", "etc", ...this.#mounts.map((mount) => mount.slice(mount.indexOf(":") + 1))]) {
      mkdirSync(join(this.#root, folder), { recursive: true });
    }
  }

  /** Puts a file of the host into the image's root, as a mount of the operator would. */
  put(file: string, text: string): void {
    mkdirSync(join(this.#root, dirname(file)), { recursive: true });
    writeFileSync(join(this.#root, file), text);
  }

  /** Starts the entry point, with these arguments in the place of CMD. */
  async start(args: readonly string[], env: Readonly<Record<string, string>>, withinMs = 60_000): Promise<Gateway> {
    const child = Bun.spawn(this.#command([...execForm(lastOf(this.#stage, "ENTRYPOINT")), ...args]), {
      env: this.#environment(env),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const gateway = new Gateway(child, this.#folder, false);
    await gateway.ready(withinMs).catch(async (error: unknown) => {
      await gateway.kill();
      throw error;
    });
    return gateway;
  }

  /** Runs a command in the same root, as `docker exec` would, and what it printed. */
  run(command: readonly string[], env: Readonly<Record<string, string>> = {}): { readonly code: number; readonly text: string } {
    const { exitCode, stdout, stderr } = Bun.spawnSync([...this.#command(command)], { env: this.#environment(env), stdin: "ignore" });
    return { code: exitCode, text: stdout.toString() + stderr.toString() };
  }

  /** The health check of the image, of a gateway at another port than its own. An engine runs it with the container's environment. */
  checkHealth(address: string): { readonly code: number; readonly text: string } {
    return this.run(healthCommand(this.#stage), { SLUICE_HEALTH_URL: address });
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** As the image's user, in a root that cannot be written but for its volume and /tmp, which no other process sees. */
  #command(command: readonly string[]): string[] {
    const user = lastOf(this.#stage, "USER");
    return [
      "unshare",
      "--mount",
      "--propagation",
      "private",
      "sh",
      "-euc",
      enterRoot,
      "sh",
      this.#root,
      user,
      this.#mounts.join(" "),
      ...command,
    ];
  }

  #environment(env: Readonly<Record<string, string>>): Record<string, string> {
    return { PATH: "/usr/local/bin:/usr/bin:/bin", ...environmentOf(this.#stage), ...env };
  }

  /** Carries out the instructions that make files, in a directory for each stage. */
  #build(stage: ImageStage): string {
    const folder = join(this.#folder, stage.name);
    let workdir = folder;
    mkdirSync(folder);
    for (const instruction of stage.instructions) {
      if (instruction.name === "WORKDIR") mkdirSync((workdir = join(folder, instruction.text)), { recursive: true });
      if (instruction.name === "COPY") {
        const { from, chown } = instruction.flags;
        const { sources, to } = copied(instruction);
        const place = to.startsWith("/") ? join(folder, to) : resolve(workdir, to);
        for (const source of sources) {
          if (from === undefined && !inContext(source)) throw new Error(`not in the build context: ${source}`);
          const path = from === undefined ? join(root, source) : join(this.#stageFolder(from), source);
          const isFolder = statSync(path).isDirectory();
          const intoFolder = to.endsWith("/") && !isFolder;
          cpSync(path, intoFolder ? join(place, basename(source)) : place, { recursive: true, verbatimSymlinks: true });
          if (chown !== undefined) chownSync(place, ...(chown.split(":").map(Number) as [number, number]));
        }
      }
      if (instruction.name === "RUN") this.#run(stage, instruction.text, folder, workdir);
    }
    return folder;
  }

  #stageFolder(name: string): string {
    const known = this.#built.get(name) ?? this.#build(stageNamed(name));
    this.#built.set(name, known);
    return known;
  }

  /** Runs the commands of a RUN in the directory of its stage. What npm would install is there already: the packages of this clone. */
  #run({ name }: ImageStage, text: string, folder: string, workdir: string): void {
    const commands = text.split(" && ");
    const isInstall = (command: string): boolean => command.startsWith("npm ci ");
    if (commands.some(isInstall)) symlinkSync(join(root, "node_modules"), join(workdir, "node_modules"));
    // A path of the image's root is one below the directory of the stage.
    const script = commands
      .filter((command) => !isInstall(command))
      .join(" && ")
      .replaceAll(/ \/(?=\w)/g, ` ${folder}/`);
    const { exitCode, stderr } = Bun.spawnSync(["sh", "-euc", script], {
      cwd: workdir,
      env: { ...process.env, TARGETARCH: process.arch === "x64" ? "amd64" : process.arch },
    });
    if (exitCode !== 0) throw new Error(`${name}: ${stderr.toString()}`);
  }
}

/** Why an image cannot be run here; null if it can. */
export const imageProblem: string | null =
  process.platform !== "linux"
    ? "images run on Linux"
    : process.getuid?.() !== 0
      ? "only root can become the user of the image"
      : Bun.spawnSync(["unshare", "--mount", "--propagation", "private", "true"], { stderr: "ignore" }).exitCode === 0
        ? null
        : "this machine allows no mount namespace";

const libraries = ["usr/lib", "lib", "lib64"].filter((path) => statSync(`/${path}`, { throwIfNoEntry: false }) !== undefined);

const enterRoot = `
root=$1 user=$2 mounts=$3
shift 3
mount --bind "$root" "$root"
for pair in $mounts; do
  mount --rbind "\${pair%%:*}" "$root/\${pair#*:}"
  case $pair in /proc:*|/dev:*) ;; *) mount -o remount,bind,ro "$root/\${pair#*:}" ;; esac
done
mount --bind "$root/data" "$root/data"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs ${Bun.which("chroot", { PATH: "/usr/sbin:/sbin:/usr/bin:/bin" })} --userspec="$user" --groups="\${user#*:}" "$root" "$@"
`;
