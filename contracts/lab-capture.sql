-- The capture file of one connector in one run. contracts/lab-connector.md defines every column.
-- A connector executes this file on an empty database. It then only inserts rows.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -65536;
PRAGMA busy_timeout = 5000;

-- Facts about the run as text: one row per name.
CREATE TABLE run (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- One row per message, in the order of receipt.
CREATE TABLE event (
  event_id INTEGER PRIMARY KEY,      -- 1, 2, 3, ...
  connection_id INTEGER NOT NULL,    -- the connector's own count: 1, and 1 more per reconnect
  feed_connection INTEGER,           -- "conn" of the envelope
  sequence INTEGER,                  -- "seq" of the envelope
  due_ns INTEGER,                    -- "due_ns" of the envelope, CLOCK_MONOTONIC
  sent_ns INTEGER,                   -- "sent_ns" of the envelope, CLOCK_MONOTONIC
  received_ns INTEGER NOT NULL,      -- CLOCK_MONOTONIC
  length_bytes INTEGER NOT NULL,     -- payload of the whole message, decompressed
  flags INTEGER NOT NULL             -- 1: binary message; 2: no envelope found
);

-- Payloads, if LAB_PAYLOAD is all.
CREATE TABLE payload (
  event_id INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

-- Offset of CLOCK_REALTIME: monotonic, realtime, monotonic, read in this order.
CREATE TABLE clock (
  before_ns INTEGER NOT NULL,
  realtime_ns INTEGER NOT NULL,
  after_ns INTEGER NOT NULL
);

-- One row per connection that ended before the run did.
CREATE TABLE gap (
  connection_id INTEGER PRIMARY KEY, -- the connection that ended
  reason TEXT NOT NULL,              -- close, lost or protocol
  close_code INTEGER,                -- status code of the close frame, if there was one
  from_ns INTEGER NOT NULL,          -- when the connector noticed
  to_ns INTEGER                      -- when the next connection was open; NULL if none was
);

-- One row per transaction that stored events.
CREATE TABLE flush (
  begin_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  events INTEGER NOT NULL
);

-- One row per pause of the garbage collector, if the runtime reports when it paused.
CREATE TABLE gc (
  begin_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL
);

-- Gaps with the sequences on both sides.
CREATE VIEW outage AS
SELECT gap.*,
  (SELECT max(sequence) FROM event WHERE event.connection_id = gap.connection_id) AS last_sequence,
  (SELECT min(sequence) FROM event WHERE event.connection_id = gap.connection_id + 1) AS next_sequence
FROM gap;

-- The two tables of the 2020 study. The time of an event is its monotonic time plus the offset of
-- the last clock row before it.
CREATE VIEW test_details AS
SELECT 1 AS test_id,
  (SELECT value FROM run WHERE name = 'host') AS vps_id,
  (SELECT value FROM run WHERE name = 'connector') AS connector_id,
  (SELECT value FROM run WHERE name = 'exchange') AS exchange_id,
  (SELECT value FROM run WHERE name = 'url') AS stream_id,
  (SELECT value FROM run WHERE name = 'subscribe') AS stream_args,
  (SELECT strftime('%Y-%m-%d %H:%M:%f', realtime_ns / 1e9, 'unixepoch') FROM clock
    ORDER BY before_ns LIMIT 1) AS datetime_start;

CREATE VIEW events AS
SELECT event.event_id,
  CAST((received_ns + (SELECT realtime_ns - (before_ns + after_ns) / 2 FROM clock
    WHERE before_ns <= received_ns ORDER BY before_ns DESC LIMIT 1)) / 1000000 AS TEXT)
    AS datetime_received,
  CAST(body AS TEXT) AS event
FROM event LEFT JOIN payload USING (event_id);
