import { describe, expect, test } from 'vitest';
import { Book, type Level, type Outcome } from '../src/lib/book';
import type { BookEdit, BookMessage } from '../src/lib/venue';

interface Sides {
  bids?: BookEdit[];
  asks?: BookEdit[];
}

function snapshot(id: number, { bids = [], asks = [] }: Sides): BookMessage {
  return { type: 'snapshot', timestamp: 1, instrument_name: 'NPN_ZAR', change_id: id, bids, asks };
}

function change(previous: number, id: number, { bids = [], asks = [] }: Sides): BookMessage {
  return { ...snapshot(id, { bids, asks }), type: 'change', prev_change_id: previous };
}

const OPENING = snapshot(10, {
  bids: [
    ['new', 99.5, 4],
    ['new', 99, 7],
  ],
  asks: [
    ['new', 100, 3],
    ['new', 100.5, 6],
  ],
});
const OPENING_BIDS: Level[] = [
  [99.5, 4],
  [99, 7],
];
const OPENING_ASKS: Level[] = [
  [100, 3],
  [100.5, 6],
];

interface Case {
  name: string;
  messages: BookMessage[];
  outcomes: Outcome[];
  bids: Level[];
  asks: Level[];
  changeId: number | null;
}

const CASES: Case[] = [
  { name: 'nothing yet', messages: [], outcomes: [], bids: [], asks: [], changeId: null },
  {
    name: 'snapshot',
    messages: [OPENING],
    outcomes: ['applied'],
    bids: OPENING_BIDS,
    asks: OPENING_ASKS,
    changeId: 10,
  },
  {
    name: 'an empty snapshot is a book',
    messages: [snapshot(3, {})],
    outcomes: ['applied'],
    bids: [],
    asks: [],
    changeId: 3,
  },
  {
    name: 'a snapshot in any order comes out best first',
    messages: [
      snapshot(1, {
        bids: [
          ['new', 98, 1],
          ['new', 99.5, 2],
          ['new', 99, 3],
        ],
        asks: [
          ['new', 102, 1],
          ['new', 100, 2],
          ['new', 101, 3],
        ],
      }),
    ],
    outcomes: ['applied'],
    bids: [
      [99.5, 2],
      [99, 3],
      [98, 1],
    ],
    asks: [
      [100, 2],
      [101, 3],
      [102, 1],
    ],
    changeId: 1,
  },
  {
    name: 'new levels at the touch, between and at the end',
    messages: [
      OPENING,
      change(10, 12, {
        bids: [
          ['new', 99.75, 1],
          ['new', 99.25, 2],
          ['new', 98, 3],
        ],
        asks: [['new', 100.25, 9]],
      }),
    ],
    outcomes: ['applied', 'applied'],
    bids: [
      [99.75, 1],
      [99.5, 4],
      [99.25, 2],
      [99, 7],
      [98, 3],
    ],
    asks: [
      [100, 3],
      [100.25, 9],
      [100.5, 6],
    ],
    changeId: 12,
  },
  {
    name: 'change of an amount',
    messages: [OPENING, change(10, 11, { bids: [['change', 99, 1]], asks: [['change', 100, 30]] })],
    outcomes: ['applied', 'applied'],
    bids: [
      [99.5, 4],
      [99, 1],
    ],
    asks: [
      [100, 30],
      [100.5, 6],
    ],
    changeId: 11,
  },
  {
    name: 'delete of the touch and of the last level of a side',
    messages: [
      OPENING,
      change(10, 11, { bids: [['delete', 99.5, 0]], asks: [['delete', 100, 0]] }),
      change(11, 15, { asks: [['delete', 100.5, 0]] }),
    ],
    outcomes: ['applied', 'applied', 'applied'],
    bids: [[99, 7]],
    asks: [],
    changeId: 15,
  },
  {
    name: 'an amount of nothing is a delete, whatever it is called',
    messages: [OPENING, change(10, 11, { bids: [['change', 99.5, 0]] })],
    outcomes: ['applied', 'applied'],
    bids: [[99, 7]],
    asks: OPENING_ASKS,
    changeId: 11,
  },
  {
    name: 'delete of a level that is not there changes nothing',
    messages: [OPENING, change(10, 11, { bids: [['delete', 99.25, 0]], asks: [['delete', 200, 0]] })],
    outcomes: ['applied', 'applied'],
    bids: OPENING_BIDS,
    asks: OPENING_ASKS,
    changeId: 11,
  },
  {
    name: 'new for a level that is there sets it once',
    messages: [OPENING, change(10, 11, { asks: [['new', 100, 5]] })],
    outcomes: ['applied', 'applied'],
    bids: OPENING_BIDS,
    asks: [
      [100, 5],
      [100.5, 6],
    ],
    changeId: 11,
  },
  {
    name: 'a gap empties the book, and changes are ignored until the next snapshot',
    messages: [
      OPENING,
      change(11, 12, { bids: [['delete', 99.5, 0]] }),
      change(12, 13, { asks: [['new', 101, 1]] }),
    ],
    outcomes: ['applied', 'gap', 'ignored'],
    bids: [],
    asks: [],
    changeId: null,
  },
  {
    name: 'a change without a previous id is a gap',
    messages: [OPENING, { ...snapshot(11, { asks: [['new', 101, 1]] }), type: 'change' }],
    outcomes: ['applied', 'gap'],
    bids: [],
    asks: [],
    changeId: null,
  },
  {
    name: 'the same change twice is a gap',
    messages: [
      OPENING,
      change(10, 11, { asks: [['new', 101, 1]] }),
      change(10, 11, { asks: [['new', 101, 1]] }),
    ],
    outcomes: ['applied', 'applied', 'gap'],
    bids: [],
    asks: [],
    changeId: null,
  },
  {
    name: 'a snapshot after a gap starts a new chain',
    messages: [
      OPENING,
      change(11, 12, {}),
      snapshot(20, { bids: [['new', 50, 1]] }),
      change(20, 21, { bids: [['new', 51, 2]] }),
    ],
    outcomes: ['applied', 'gap', 'applied', 'applied'],
    bids: [
      [51, 2],
      [50, 1],
    ],
    asks: [],
    changeId: 21,
  },
  {
    name: 'a snapshot on a live channel replaces the book, even with a lower id',
    messages: [OPENING, snapshot(2, { asks: [['new', 70, 1]] })],
    outcomes: ['applied', 'applied'],
    bids: [],
    asks: [[70, 1]],
    changeId: 2,
  },
  {
    name: 'changes before the first snapshot are ignored',
    messages: [change(9, 10, { bids: [['new', 1, 1]] }), OPENING],
    outcomes: ['ignored', 'applied'],
    bids: OPENING_BIDS,
    asks: OPENING_ASKS,
    changeId: 10,
  },
];

test.each(CASES)('$name', ({ messages, outcomes, bids, asks, changeId }) => {
  const book = new Book();
  expect(messages.map((message) => book.apply(message))).toEqual(outcomes);
  expect(book.bids).toEqual(bids);
  expect(book.asks).toEqual(asks);
  expect(book.changeId).toBe(changeId);
  expect(book.ready).toBe(changeId !== null);
});

test('a long run of random changes agrees with a plain map', () => {
  const book = new Book();
  const model = { bids: new Map<number, number>(), asks: new Map<number, number>() };
  book.apply(snapshot(0, {}));
  // A small generator with a fixed seed, so that failures repeat.
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  for (let id = 1; id <= 3000; id++) {
    const side = random(2) === 0 ? 'bids' : 'asks';
    const price = 100 + random(60) / 4;
    const amount = random(3) === 0 ? 0 : 1 + random(50);
    const held = model[side].has(price);
    const edit: BookEdit = [amount === 0 ? 'delete' : held ? 'change' : 'new', price, amount];
    if (amount === 0) model[side].delete(price);
    else model[side].set(price, amount);
    expect(book.apply(change(id - 1, id, { [side]: [edit] }))).toBe('applied');
  }
  expect(book.bids).toEqual([...model.bids].sort((a, b) => b[0] - a[0]));
  expect(book.asks).toEqual([...model.asks].sort((a, b) => a[0] - b[0]));
});

describe('ladder', () => {
  test('totals run from the touch outwards and stop at the depth', () => {
    const book = new Book();
    book.apply(OPENING);
    expect(book.ladder(2)).toEqual({
      bids: [
        { price: 99.5, amount: 4, total: 4 },
        { price: 99, amount: 7, total: 11 },
      ],
      asks: [
        { price: 100, amount: 3, total: 3 },
        { price: 100.5, amount: 6, total: 9 },
      ],
      spread: 0.5,
      mid: 99.75,
      maxAmount: 7,
      maxTotal: 11,
    });
    const top = book.ladder(1);
    expect([top.bids.length, top.asks.length, top.maxTotal]).toEqual([1, 1, 4]);
  });

  test('one side empty has no spread', () => {
    const book = new Book();
    book.apply(snapshot(1, { bids: [['new', 5, 2]] }));
    expect(book.ladder(3)).toMatchObject({ spread: null, mid: null, maxAmount: 2, maxTotal: 2, asks: [] });
  });

  test('a book crossed by an auction call has a negative spread', () => {
    const book = new Book();
    book.apply(snapshot(1, { bids: [['new', 101, 2]], asks: [['new', 100, 2]] }));
    expect(book.ladder(3).spread).toBe(-1);
  });
});
