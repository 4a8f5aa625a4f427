/* Binary order entry and the order-by-order feed of a Pitwire venue, for C and for languages that
 * call C. The library is clients/cpp/build/libpitwire_client.so; docs/sbe.md and docs/order-feed.md
 * describe the protocols.
 *
 * Prices and quantities are whole numbers of 1e-8; PITWIRE_NONE means "none". A function that fails
 * returns NULL or PITWIRE_FAILED, and pitwire_error() says why. Use a session or feed on one thread
 * at a time. A session requests missing messages, and logs on again after a cut. */
#ifndef PITWIRE_CLIENT_H
#define PITWIRE_CLIENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PITWIRE_NONE INT64_MIN
#define PITWIRE_FAILED (-1)

/* Values of `kind`: the template ids of the schema, and one for lost messages. */
enum {
    PITWIRE_LOST = 0, /* messages or reports are missing for good: query the orders */
    PITWIRE_ORDER_ACCEPTED = 20,
    PITWIRE_MASS_CANCEL_ACCEPTED = 21,
    PITWIRE_EXECUTION_REPORT = 22,
    PITWIRE_REJECT = 23,
    PITWIRE_BEST_PRICES = 24,
    PITWIRE_VWAP = 25,
    PITWIRE_BOOK = 26, /* one message for each level; one with side 0 ends the answer */
    PITWIRE_INSTRUMENT_STATUS = 27
};

/* A numbered message. Fields that a kind does not have are 0 or PITWIRE_NONE. Enumerations have
 * the values of the schema. */
typedef struct {
    int32_t kind;
    int32_t status;
    int32_t side;
    int32_t execution_type;
    int32_t code;
    uint32_t instrument_id;
    uint64_t request_id;
    uint64_t order_id;
    uint64_t cancelled;
    int64_t price; /* VWAP: of the trades */
    int64_t quantity;
    int64_t filled_quantity;
    int64_t last_price;
    int64_t last_quantity;
    int64_t bid_price;
    int64_t bid_quantity;
    int64_t ask_price;
    int64_t ask_quantity;
    char client_order_id[72];
    char text[512]; /* "name: reason; remedy" of a reject, or "session state" */
} pitwire_message;

typedef struct {
    int64_t price;
    int64_t quantity;
} pitwire_level;

typedef struct pitwire_session pitwire_session;
typedef struct pitwire_feed pitwire_feed;

/* The cause of this thread's last failure. */
const char *pitwire_error(void);

/* Connects and logs on. `address` is HOST:PORT. */
pitwire_session *pitwire_log_on(const char *address, const char *client_id, const char *secret);
/* Logs out and frees the session. The orders stay in the market. */
void pitwire_log_out(pitwire_session *session);
/* Enters a limit order; side 1 buys, 2 sells. The request functions set `request_id`. */
int32_t pitwire_enter_limit(pitwire_session *session, const char *client_order_id, uint32_t instrument_id, int32_t side, int64_t quantity, int64_t price, uint64_t *request_id);
int32_t pitwire_amend(pitwire_session *session, uint64_t order_id, int64_t quantity, int64_t price, uint64_t *request_id);
int32_t pitwire_cancel(pitwire_session *session, uint64_t order_id, uint64_t *request_id);
/* Cancels all orders of the account in an instrument. */
int32_t pitwire_mass_cancel(pitwire_session *session, uint32_t instrument_id, uint64_t *request_id);
/* Subject 1: best prices, 2: VWAP, 3: book with `depth` levels a side, 4: status. */
int32_t pitwire_query(pitwire_session *session, uint32_t instrument_id, int32_t subject, int32_t depth, uint64_t *request_id);
/* Takes the next message. Returns 1, or 0 if none comes within the timeout. Call it often: it also
 * answers heartbeats. */
int32_t pitwire_poll(pitwire_session *session, int32_t timeout_ms, pitwire_message *message);

/* Joins the feed. `lines` is HOST:PORT, or two of them with a comma; `recovery` is HOST:PORT. */
pitwire_feed *pitwire_feed_join(const char *lines, const char *recovery);
void pitwire_feed_leave(pitwire_feed *feed);
/* Applies the messages that arrive within the timeout, and fills gaps. Returns 0. */
int32_t pitwire_feed_poll(pitwire_feed *feed, int32_t timeout_ms);
/* Number of the newest message in the books. */
uint64_t pitwire_feed_newest(pitwire_feed *feed);
/* Number of replays that have been requested. */
uint64_t pitwire_feed_replays(pitwire_feed *feed);
/* Copies up to `capacity` levels of a side, best first. Returns the number of all levels. Here
 * `instrument_id` is the number of the feed, which is one less than that of order entry. */
int32_t pitwire_feed_levels(pitwire_feed *feed, uint32_t instrument_id, int32_t side, pitwire_level *levels, int32_t capacity);

#ifdef __cplusplus
}
#endif

#endif
