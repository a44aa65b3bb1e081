import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { answers, freePort, scratch, start } from "./processes.ts";
import { started, startsWithinMs, type Target, type Upstream } from "./target.ts";

/** nginx as a plain reverse proxy with one worker: what passing bytes on costs when nothing is looked at. */
export async function startNginx(upstream: Upstream): Promise<Target> {
  const port = freePort();
  const directory = join(scratch, "nginx");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "nginx.conf"), configuration(port, upstream.ports[0] ?? 0));
  const running = start({ name: "nginx", command: ["nginx", "-e", "stderr", "-p", directory, "-c", join(directory, "nginx.conf")] });
  const origin = `http://127.0.0.1:${port}`;
  await answers(running, `${origin}/v1/models`, startsWithinMs);
  return started("nginx", running, { origin });
}

export function nginxVersion(): string | null {
  if (Bun.which("nginx") === null) return null;
  const said = Bun.spawnSync(["nginx", "-v"]).stderr.toString();
  return /nginx\/(\S+)/.exec(said)?.[1] ?? "unknown";
}

/** Started by root, its worker would be nobody, who may not write its bodies into our folder. */
function workerUser(): string {
  return process.getuid?.() === 0 ? "user root;\n" : "";
}

function configuration(port: number, upstreamPort: number): string {
  return `daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid nginx.pid;
${workerUser()}error_log stderr error;
events { worker_connections 19000; }
http {
  access_log off;
  client_body_temp_path body;
  client_max_body_size 0;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
  upstream bench {
    server 127.0.0.1:${upstreamPort};
    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 3600s;
      proxy_send_timeout 3600s;
    }
  }
}
`;
}
