/** Which instrument is shown. It lives in the URL hash, so a link or a reload opens the same market. */
export class Selection {
  wanted = $state(read());

  constructor() {
    addEventListener('hashchange', () => (this.wanted = read()));
  }

  /** Keyboard moves replace the entry: holding a key down should not fill the history. */
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
