import { expect, test } from 'vitest';
import { ClockOffset, FeedLag, Lag } from '../src/lib/lag';

test('the offset is taken from the quickest answer, half a round trip after it was asked', () => {
  const clock = new ClockOffset();
  expect(clock.value).toBeNull();
  clock.add(1000, 6200, 1400);
  expect(clock.value).toBe(5000);
  clock.add(2000, 7005, 2010);
  expect(clock.value).toBe(5000);
  clock.add(3000, 8004, 3002);
  expect(clock.value).toBe(5003);
  clock.add(4000, 9350, 4500);
  expect(clock.value).toBe(5003);
});

test('a clock that was set is known again when the answers of before are forgotten', () => {
  const clock = new ClockOffset();
  clock.add(0, 100, 1);
  for (let i = 1; i <= 7; i++) clock.add(i * 1000, i * 1000 + 505, i * 1000 + 10);
  expect(clock.value).toBeNull();
  clock.add(8000, 8505, 8010);
  expect(clock.value).toBe(500);
  clock.clear();
  expect(clock.value).toBeNull();
});

test('a clock that is held still, or runs at another pace, gives no lag', () => {
  const still = new ClockOffset();
  for (let i = 0; i < 5; i++) still.add(i * 1000, 5_000, i * 1000 + 2);
  expect(still.value).toBeNull();
  const drifting = new ClockOffset();
  for (let i = 0; i < 8; i++) drifting.add(i * 1000, i * 1000 + i, i * 1000 + 2);
  expect(drifting.value).not.toBeNull();
});

test('one late frame does not move the lag; a feed that is late does', () => {
  const lag = new Lag();
  expect(lag.median).toBeNull();
  for (const late of [4, 5, 900, 6, 5]) lag.add(late);
  expect(lag.median).toBe(5);
  for (let i = 0; i < 31; i++) lag.add(200);
  expect(lag.median).toBe(200);
});

test('a lag is received on a clock of this pace, and taken back when the clock turns out to run at another', () => {
  const feed = new FeedLag();
  feed.stamped(5_000, 0);
  expect(feed.median).toBeNull();
  feed.compared(0, 5_001, 2);
  feed.stamped(5_090, 100);
  expect(feed.median).toBe(10);
  // A quarter of a second later the venue is a quarter of a minute ahead.
  feed.compared(250, 20_001, 252);
  expect(feed.median).toBeNull();
  feed.stamped(20_500, 260);
  expect(feed.median).toBeNull();
});

test('a message is never younger than zero, however unequal the ways of an answer are', () => {
  const feed = new FeedLag();
  // The answer took 100 ms on its way to the venue and none back, so half a round trip is wrong.
  feed.compared(0, 5_100, 100);
  feed.stamped(5_200, 200);
  expect(feed.median).toBe(50);
  const other = new FeedLag();
  other.compared(0, 5_000, 100);
  other.stamped(5_200, 200);
  expect(other.median).toBe(0);
});

test('a market whose time is not that of the day gives no lag', () => {
  const feed = new FeedLag();
  feed.compared(0, 1, 2);
  feed.stamped(5, 30);
  expect(feed.median).toBe(25);
  feed.stamped(3_000_000, 100);
  expect(feed.median).toBeNull();
  feed.stamped(-3_000_000, 100);
  expect(feed.median).toBeNull();
});
