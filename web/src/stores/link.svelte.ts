import { Connection, type Listener, type Status } from '../lib/connection';

/** The connection as the page shows it. */
export class Link {
  status = $state.raw<Status>({ phase: 'connecting', retryAt: null });
  roundTrip = $state<number | null>(null);
  problem = $state<string | null>(null);
  readonly connection: Connection;

  constructor(url: string, events: Pick<Listener, 'live' | 'lost'>) {
    this.connection = new Connection(() => new WebSocket(url), {
      status: (status) => (this.status = status),
      live: () => {
        this.problem = null;
        events.live();
      },
      lost: () => {
        this.roundTrip = null;
        events.lost();
      },
      roundTrip: (milliseconds) => (this.roundTrip = milliseconds),
      problem: (text) => (this.problem = text),
    });
  }

  get live(): boolean {
    return this.status.phase === 'live';
  }
}

/** The API lives on the host that served the page, whatever its name and port. */
export function endpoint(location: Location): string {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  return `${scheme}//${location.host}/ws/api/v2`;
}
