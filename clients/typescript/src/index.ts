export { BookFault, OrderBook, type Level } from './book.js';
export { type Subscription } from './connection.js';
export { ConnectionFailed, NotSent, OrderUnknown, PitwireError, Refused, Unanswered } from './errors.js';
export { type ConnectionState, type Settings } from './settings.js';
export { type BookSubscription, Venue } from './venue.js';
export type { Amendment, Fill, NewOrder, Order, OrderOutcome, Restart } from './types.js';
