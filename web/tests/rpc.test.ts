import { expect, test } from 'vitest';
import { explain } from '../src/lib/answer';
import { RpcError, decode, encode } from '../src/lib/rpc';

test('a request carries the version, the id and the parameters', () => {
  expect(JSON.parse(encode(7, 'public/test', { a: 1 }))).toEqual({
    jsonrpc: '2.0',
    id: 7,
    method: 'public/test',
    params: { a: 1 },
  });
});

test.each([
  ['a result', '{"jsonrpc":"2.0","id":3,"result":["x"],"usIn":1}', { kind: 'result', id: 3, result: ['x'] }],
  ['a null result', '{"id":3,"result":null}', { kind: 'result', id: 3, result: null }],
  [
    'a notification',
    '{"method":"subscription","params":{"channel":"book.A.100ms","data":{"n":1}}}',
    { kind: 'notification', channel: 'book.A.100ms', data: { n: 1 } },
  ],
  ['a heartbeat', '{"method":"heartbeat","params":{"type":"heartbeat"}}', { kind: 'other' }],
  ['a result of a stranger', '{"id":"abc","result":1}', { kind: 'other' }],
  ['broken text', '{"id":', { kind: 'other' }],
  ['an array', '[]', { kind: 'other' }],
])('%s', (_, text, incoming) => expect(decode(text)).toEqual(incoming));

test('an error keeps its code and says the reason', () => {
  const incoming = decode(
    '{"id":8,"error":{"code":10043,"message":"price_wrong_tick","data":{"reason":"off grid"}}}',
  );
  expect(incoming).toMatchObject({ kind: 'error', id: 8 });
  const error = incoming.kind === 'error' ? incoming.error : null;
  expect(error).toBeInstanceOf(RpcError);
  expect([error?.code, error?.message]).toEqual([10043, 'price_wrong_tick: off grid']);
});

test('an error keeps reason, remedy, rule and parameter, and nothing that is not text', () => {
  const data = {
    reason: 'off grid',
    remedy: 'Round it.',
    rule: 'tick-size',
    param: 'price',
    name: 7,
    limit: 3,
  };
  const incoming = decode(JSON.stringify({ id: 8, error: { code: 1, message: 'price_wrong_tick', data } }));
  const error = incoming.kind === 'error' ? incoming.error : null;
  expect(error?.title).toBe('price_wrong_tick');
  expect(error?.data).toEqual({ reason: 'off grid', remedy: 'Round it.', rule: 'tick-size', param: 'price' });
});

test('an answer shows the words of the venue; other failures show their own', () => {
  const refusal = new RpcError(10043, 'price_wrong_tick', { reason: 'off grid', remedy: 'Round it.' });
  expect(explain(refusal)).toEqual({
    ...{ good: false, code: 10043, title: 'price wrong tick' },
    ...{ reason: 'off grid', remedy: 'Round it.' },
  });
  expect(explain(new Error('not connected'))).toEqual({ good: false, title: 'not connected' });
});

test('an error without an id is still an error', () => {
  expect(decode('{"error":{}}')).toMatchObject({ kind: 'error', id: null });
});
