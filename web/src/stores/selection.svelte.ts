/** The selected instrument. The URL hash stores it, so a link or a reload opens the same market. */
export class Selection {
  wanted = $state(read());

  constructor() {
    addEventListener('hashchange', () => (this.wanted = read()));
  }

  /** Keyboard moves replace the history entry, so a held key does not fill the history. */
  choose(name: string): void {
    history.replaceState(null, '', `#${encodeURIComponent(name)}`);
    this.wanted = name;
  }
}

function read(): string {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}
