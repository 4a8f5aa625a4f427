import { clock as clockIn, type TimeZoneChoice } from '../lib/format';

export type Theme = 'auto' | 'dark' | 'light';

/** The key of local storage that holds the choices. */
const KEY = 'pitwire.preferences';
const THEMES: readonly Theme[] = ['auto', 'dark', 'light'];
const ZONES: readonly TimeZoneChoice[] = ['utc', 'local'];

/** The reader's choices for this browser: colours and the time zone of every time on the page. */
class Preferences {
  theme = $state<Theme>('auto');
  zone = $state<TimeZoneChoice>('utc');
  /** The theme that is shown: `auto` follows the system. */
  shownTheme = $state<'dark' | 'light'>('dark');
  #system = matchMedia('(prefers-color-scheme: light)');

  constructor() {
    const saved = read();
    if (THEMES.includes(saved.theme as Theme)) this.theme = saved.theme as Theme;
    if (ZONES.includes(saved.zone as TimeZoneChoice)) this.zone = saved.zone as TimeZoneChoice;
    this.#system.addEventListener('change', () => this.#apply());
    this.#apply();
  }

  /** Goes on to the next theme: auto, dark, light, auto. */
  nextTheme(): void {
    this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]!;
    this.#apply();
    this.#save();
  }

  nextZone(): void {
    this.zone = this.zone === 'utc' ? 'local' : 'utc';
    this.#save();
  }

  /** The name of the time zone that times are shown in, such as UTC or GMT+2. */
  get zoneName(): string {
    if (this.zone === 'utc') return 'UTC';
    const parts = new Intl.DateTimeFormat('en-US', { timeZoneName: 'short' }).formatToParts();
    return parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'local';
  }

  /** The time of day, hh:mm:ss, of `milliseconds` since 1970. */
  clock(milliseconds: number): string {
    return clockIn(milliseconds, this.zone);
  }

  #apply(): void {
    this.shownTheme = this.theme === 'auto' ? (this.#system.matches ? 'light' : 'dark') : this.theme;
    document.documentElement.dataset.theme = this.shownTheme;
  }

  #save(): void {
    try {
      localStorage.setItem(KEY, JSON.stringify({ theme: this.theme, zone: this.zone }));
    } catch {
      // Storage is full or forbidden: the choice then lasts until the page closes.
    }
  }
}

function read(): Record<string, unknown> {
  try {
    const saved: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return typeof saved === 'object' && saved !== null ? (saved as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export const preferences = new Preferences();
