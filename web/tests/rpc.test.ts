import { expect, test } from 'vitest';
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

test('an error without an id is still an error', () => {
  expect(decode('{"error":{}}')).toMatchObject({ kind: 'error', id: null });
});
