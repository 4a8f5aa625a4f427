// Quotes a tenth below the best bid, prints what happens to the order, and cancels it.
// npm run example -- ws://127.0.0.1:8080/ws/api/v2
import { OrderUnknown, Venue } from '../src/index.js';

const venue = await Venue.connect({
  url: process.argv[2] ?? 'ws://127.0.0.1:8080/ws/api/v2',
  clientId: 'demo-a',
  clientSecret: 'demo-a-secret',
  onState: (state, cause) => console.log(`connection: ${state} ${cause}`.trim()),
});
const own = await venue.followOwn({
  order: ({ order_id, order_state, price }) => console.log(`order ${order_id} at ${price}: ${order_state}`),
  trade: ({ amount, price }) => console.log(`traded ${amount} at ${price}`),
  restarted: ({ reason }) => console.log(`notices may be missing: ${reason}`),
});

// Wait until the book is complete and has a bid.
const price = await new Promise<number>((resolve) => {
  void venue.followBook('BTC_USDC', ({ bids }) => bids[0] && resolve(bids[0][0] * 0.9));
});
try {
  const order = { side: 'buy', instrument_name: 'BTC_USDC', amount: 0.01, price: Math.floor(price) } as const;
  const placed = await venue.place({ ...order, post_only: true });
  await venue.cancel(placed.order.order_id);
} catch (error) {
  if (!(error instanceof OrderUnknown)) throw error;
  const order = await venue.resolve(error.label);
  console.log(order ? `order ${order.order_id} was entered` : 'the order was not entered');
}
await own.unsubscribe();
venue.close();
