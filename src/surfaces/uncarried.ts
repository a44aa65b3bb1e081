/** The names of what has no place in the conversation. The client wrote some of them, and they are repeated in a header of the answer. */
export class Uncarried {
  private readonly found = new Set<string>();

  add(name: string): void {
    if (this.found.size < namesMax) this.found.add(plainName.test(name) ? name : "unnamable");
  }

  get names(): readonly string[] {
    return [...this.found];
  }
}

const namesMax = 32;
const plainName = /^[\w.-]{1,80}$/;
