/** The same request as a command, for a shell. The key stays out of it. */
export function curlFor(address: string, path: string, body: unknown): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return [
    `curl ${address}${path} \\`,
    '  -H "Authorization: Bearer $KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${json}'`,
  ].join("\n");
}

export function curlForUpload(address: string, path: string, fileName: string, fields: Readonly<Record<string, string>>): string {
  const parts = Object.entries(fields).map(([name, value]) => `  -F ${name}=${shellWord(value)}`);
  return [
    `curl ${address}${path} \\`,
    '  -H "Authorization: Bearer $KEY" \\',
    ...parts.map((part) => `${part} \\`),
    `  -F file=@${shellWord(fileName)}`,
  ].join("\n");
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
