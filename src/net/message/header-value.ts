/** No value, whoever it comes from, may begin a header of its own: what cannot stand in one is replaced. */
export function oneLine(value: string, instead: "" | "?"): string {
  return unsafe.test(value) ? value.replace(/[^\t\x20-\x7e\x80-\xff]/g, instead) : value;
}

const unsafe = /[^\t\x20-\x7e\x80-\xff]/;
