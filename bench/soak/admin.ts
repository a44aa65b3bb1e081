/** The admin API of the gateway under test, with the operator's token. */
export class Admin {
  constructor(
    private readonly origin: string,
    private readonly token: string,
  ) {}

  async get<Answer>(path: string): Promise<Answer> {
    return (await this.call("GET", path)) as Answer;
  }

  async post<Answer>(path: string, body: object): Promise<Answer> {
    return (await this.call("POST", path, body)) as Answer;
  }

  /** The value of a metric without labels. */
  async metric(name: string): Promise<number> {
    return (await this.metrics(name))[0] ?? Number.NaN;
  }

  async metrics(...names: readonly string[]): Promise<readonly number[]> {
    const text = await (await fetch(`${this.origin}/metrics`, { headers: this.headers })).text();
    return names.map((name) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN));
  }

  private get headers(): Record<string, string> {
    return { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
  }

  private async call(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.origin}/admin/api${path}`, {
      method,
      headers: this.headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${(await response.text()).slice(0, 300)}`);
    return response.json();
  }
}
