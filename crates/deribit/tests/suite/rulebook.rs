//! The rulebook through the API: stops, hidden orders, times in force, sessions and mass cancels.
//! Plain clients see none of the additional fields.

use crate::common::{Reply, World};
use pitwire_deribit::Session;
use pitwire_model::{
    Command, InstrumentId, InstrumentLimits, Lots, Phase, RemainingSessions, SessionReason, TradingRules, VenueDay,
    VenueNanos,
};
use serde_json::{Value, json};

const NPN: InstrumentId = InstrumentId(0);

/// An order for five shares with additional parameters.
fn order(more: Value) -> Value {
    let mut params = json!({"instrument_name": "NPN_ZAR", "amount": 5});
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    params
}

#[track_caller]
fn fields(answer: &Value, expected: &[(&str, Value)]) {
    for (field, value) in expected {
        assert_eq!(&answer[*field], value, "{field} of {answer}");
    }
}

#[track_caller]
fn entered(reply: &Reply) -> Value {
    reply.result()["order"].clone()
}

#[track_caller]
fn refused(reply: &Reply, code: i64, name: &str) -> Value {
    assert_eq!((reply.code(), &reply.value["error"]["data"]["name"]), (code, &json!(name)), "{}", reply.text);
    let data = reply.value["error"]["data"].clone();
    assert!(data["remedy"].as_str().is_some_and(|text| !text.is_empty()) && data["rule"].is_string(), "{}", reply.text);
    data
}

impl World {
    fn turn(&mut self, to: Phase) {
        let (due, reason) = (self.venue.now, SessionReason::Scheduled);
        self.venue.must(Command::ChangeSession { instrument: NPN, to, reason, due, ends: None });
    }

    /// Runs a venue day with two calls and a cross for the first share, starting at its 2026-11-21.
    fn day(&mut self) {
        let closes = VenueNanos(self.venue.now.0 + 3_600_000_000_000);
        self.venue.must(Command::BeginDay { day: VenueDay(20_778), closes });
        let mut counts = [0; 16];
        for phase in [Phase::IntradayCall, Phase::ClosingCall, Phase::ClosingPriceCross] {
            counts[phase as usize] = 1;
        }
        self.venue.must(Command::SetRemaining { instrument: NPN, remaining: RemainingSessions { counts } });
    }

    fn print_at(&mut self, buyer: &mut Session, seller: &mut Session, price: f64) {
        self.limit(seller, "sell", "NPN_ZAR", 1.0, price);
        self.limit(buyer, "buy", "NPN_ZAR", 1.0, price);
    }
}

#[test]
fn stop_rests_untriggered_and_election_is_sent() {
    let mut world = World::new();
    let (mut alice, mut bob, mut third) = (world.login("alice"), world.login("bob"), world.login("operator"));
    world.ok(&mut alice, "private/subscribe", json!({"channels": ["user.orders.any.any.raw"]}));
    world.print_at(&mut bob, &mut third, 3200.0);
    let stop = order(json!({"type": "stop_market", "trigger": "last_price", "trigger_price": 3190}));
    let answer = entered(&world.ok(&mut alice, "private/sell", stop));
    fields(
        &answer,
        &[
            ("order_state", json!("untriggered")),
            ("order_type", json!("stop_market")),
            ("price", json!("market_price")),
            ("trigger", json!("last_price")),
            ("trigger_price", json!(3190.0)),
            ("triggered", json!(false)),
            ("filled_amount", json!(0.0)),
            ("time_in_force", json!("good_til_cancelled")),
        ],
    );
    assert_eq!(answer.get("queue_ahead"), None, "it is first in the queue");
    let of_type = |world: &mut World, alice: &mut Session, word: &str| {
        world.ok(alice, "private/get_open_orders", json!({"type": word})).result().as_array().map(Vec::len)
    };
    for (word, count) in
        [("all", 1), ("trigger_all", 1), ("stop_market", 1), ("stop_limit", 0), ("limit", 0), ("take_all", 0)]
    {
        assert_eq!(of_type(&mut world, &mut alice, word), Some(count), "{word}");
    }
    world.limit(&mut bob, "buy", "NPN_ZAR", 5.0, 3180.0);
    world.received(&mut alice);
    world.venue.changes.clear();
    world.print_at(&mut bob, &mut third, 3190.0);
    let received = world.received(&mut alice);
    let states: Vec<&Value> = received.iter().map(|answer| &answer["params"]["data"]["order_state"]).collect();
    assert_eq!(states, [&json!("triggered"), &json!("filled")], "{received:?}");
    fields(
        &received[1]["params"]["data"],
        &[
            ("triggered", json!(true)),
            ("trigger_reference_price", json!(3190.0)),
            ("average_price", json!(3180.0)),
            ("order_type", json!("stop_market")),
        ],
    );
}

#[test]
fn a_stop_whose_trigger_has_passed_is_refused_unless_it_asks_for_an_election() {
    let mut world = World::new();
    let (mut alice, mut bob, mut third) = (world.login("alice"), world.login("bob"), world.login("operator"));
    world.print_at(&mut bob, &mut third, 3200.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 9.0, 3210.0);
    for (method, trigger, code) in [
        ("private/buy", 3200.0, Some(11036)),
        ("private/buy", 3199.99, Some(11036)),
        ("private/buy", 3200.01, None),
        ("private/sell", 3200.0, Some(11036)),
        ("private/sell", 3200.01, Some(11036)),
        ("private/sell", 3199.99, None),
    ] {
        let stop = order(json!({"type": "stop_limit", "trigger_price": trigger, "price": trigger}));
        let reply = world.call(&mut alice, method, stop);
        match code {
            Some(code) => {
                let data = &reply.value["error"]["data"];
                assert_eq!((reply.code(), &data["param"]), (code, &json!("trigger_price")), "{method} {trigger}");
                assert_eq!(data["limit"], json!(3200.0), "{}", reply.text);
            }
            None => assert_eq!(entered(&reply)["order_state"], json!("untriggered"), "{method} {trigger}"),
        }
    }
    // The venue's own rule is one parameter away: the stop is elected at once and trades.
    let stop = order(json!({"type": "stop_market", "trigger_price": 3200, "pitwire_trigger_at_once": true}));
    let answer = entered(&world.ok(&mut alice, "private/buy", stop));
    fields(&answer, &[("order_state", json!("filled")), ("triggered", json!(true)), ("average_price", json!(3210.0))]);
    // An edit may not move a trigger past the last price either.
    world.print_at(&mut bob, &mut third, 3200.0);
    let stop = order(json!({"type": "stop_limit", "trigger_price": 3300, "price": 3310}));
    let id = entered(&world.ok(&mut alice, "private/buy", stop))["order_id"].clone();
    let moved = world.call(&mut alice, "private/edit", json!({"order_id": id, "trigger_price": 3200, "price": 3310}));
    assert_eq!(moved.code(), 11036, "{}", moved.text);
}

#[test]
fn a_stop_limit_can_be_moved_and_cancelled_while_it_waits() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let stop = order(json!({"type": "stop_limit", "trigger_price": 3300, "price": 3310}));
    let answer = entered(&world.ok(&mut alice, "private/buy", stop));
    fields(
        &answer,
        &[("order_state", json!("untriggered")), ("price", json!(3310.0)), ("trigger_price", json!(3300.0))],
    );
    let id = answer["order_id"].clone();
    let moved =
        entered(&world.ok(&mut alice, "private/edit", json!({"order_id": id, "trigger_price": 3290, "price": 3305})));
    fields(
        &moved,
        &[
            ("order_state", json!("untriggered")),
            ("price", json!(3305.0)),
            ("trigger_price", json!(3290.0)),
            ("amount", json!(5.0)),
        ],
    );
    assert_eq!(world.ok(&mut alice, "private/cancel_all", json!({"type": "limit"})).result(), &json!(0));
    assert_eq!(world.ok(&mut alice, "private/cancel_all", json!({"type": "stop"})).result(), &json!(1));
}

#[test]
fn hidden_order_is_visible_only_to_owner() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let public = |world: &mut World| {
        let mut anonymous = world.connect();
        let book =
            world.ok(&mut anonymous, "public/get_order_book", json!({"instrument_name": "NPN_ZAR"})).result().clone();
        let figures = world.ok(&mut anonymous, "public/pitwire_get_statistics", json!({"instrument_name": "NPN_ZAR"}));
        (book, figures.result().clone())
    };
    let before = public(&mut world);
    for (amount, minimum) in [("hidden", "min_execution"), ("pitwire_hidden", "pitwire_minimum_execution")] {
        let mut params = order(json!({"price": 3100}));
        params[amount] = json!(true);
        params[minimum] = json!(2);
        let answer = entered(&world.ok(&mut alice, "private/buy", params));
        fields(
            &answer,
            &[
                ("order_state", json!("open")),
                ("order_type", json!("limit")),
                ("hidden", json!(true)),
                ("min_execution", json!(2.0)),
                ("max_show", json!(0.0)),
                ("price", json!(3100.0)),
            ],
        );
    }
    assert_eq!(public(&mut world), before);
    let whole = entered(&world.ok(&mut alice, "private/buy", order(json!({"price": 3100, "hidden": true}))));
    assert_eq!(whole["min_execution"], json!(5.0), "without a word on it, whole or not at all");
    let changed = json!({"order_id": whole["order_id"], "min_execution": 3});
    assert_eq!(entered(&world.ok(&mut alice, "private/edit", changed))["min_execution"], json!(3.0));
    let zero = world.call(&mut alice, "private/buy", order(json!({"price": 3100, "hidden": true, "min_execution": 0})));
    let data = refused(&zero, 10021, "minimum_execution_out_of_range");
    assert_eq!((&data["param"], &data["limit"]), (&json!("min_execution"), &json!(1.0)));
}

#[test]
fn time_in_force_is_exact_and_has_dialect_word() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    world.day();
    let later_ms = world.venue.now.as_millis() + 60_000;
    for (params, word, exact, expires, parked) in [
        (
            json!({"tif_ext": "gtd", "expires_at": "2026-11-25"}),
            "good_til_cancelled",
            "gtd",
            json!("2026-11-25"),
            false,
        ),
        (json!({"time_in_force": "GTT", "expires_at": later_ms}), "good_til_day", "gtt", json!(later_ms), false),
        (json!({"tif_ext": "gfa"}), "good_til_cancelled", "gfa", Value::Null, true),
        (json!({"tif_ext": "gfx", "time_in_force": "good_til_day"}), "good_til_day", "gfx", Value::Null, true),
        (json!({"pitwire_time_in_force": "atc"}), "good_til_day", "atc", Value::Null, true),
        (json!({"tif_ext": "cpx"}), "good_til_day", "cpx", Value::Null, true),
    ] {
        let mut params = order(params);
        params["price"] = json!(3000);
        let answer = entered(&world.ok(&mut alice, "private/buy", params));
        fields(&answer, &[("time_in_force", json!(word)), ("tif_ext", json!(exact)), ("expires_at", expires)]);
        assert_eq!(answer.get("parked"), parked.then_some(&json!(true)), "{answer}");
        assert_eq!(answer["order_state"], "open");
    }
    let plain = entered(&world.ok(&mut alice, "private/buy", order(json!({"price": 3000, "tif_ext": "day"}))));
    assert_eq!(
        (&plain["time_in_force"], plain.get("tif_ext")),
        (&json!("good_til_day"), None),
        "the dialect has that word"
    );
    for absent in ["hidden", "min_execution", "tif_ext", "expires_at", "parked", "trigger", "triggered"] {
        let answer = entered(&world.ok(&mut alice, "private/buy", order(json!({"price": 3000}))));
        assert_eq!(answer.get(absent), None, "{absent} of a plain order");
    }
}

#[test]
fn market_order_reports_the_default_tif_and_explicit_gtc_is_refused() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for params in [json!({"type": "market"}), json!({"type": "market", "time_in_force": "good_til_cancelled"})] {
        let answer = entered(&world.ok(&mut alice, "private/buy", order(params)));
        assert_eq!(answer["time_in_force"], "good_til_cancelled");
    }
    let gtc = world.call(&mut alice, "private/buy", order(json!({"type": "market", "tif_ext": "gtc"})));
    let data = refused(&gtc, 11047, "tif_not_allowed_for_type");
    assert_eq!(data["rule_id"], "market-does-not-wait");
    assert_eq!(
        data["reason"],
        "market x gtc: A market order never outlives its session, so it cannot be good until a later time."
    );
}

#[test]
fn session_refusal_names_session_and_rule() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let opg = world.call(&mut alice, "private/buy", order(json!({"price": 3000, "tif_ext": "opg"})));
    let data = refused(&opg, 10012, "tif_not_allowed_in_session");
    assert_eq!(data["rule_id"], "opg-opening-only");
    assert!(data["reason"].as_str().is_some_and(|text| text.starts_with("continuous x opg: ")), "{data}");
    let none_left = world.call(&mut alice, "private/buy", order(json!({"price": 3000, "tif_ext": "atc"})));
    refused(&none_left, 10012, "no_auction_scheduled");
    world.turn(Phase::IntradayCall);
    let hidden = world.call(&mut alice, "private/buy", order(json!({"price": 3000, "hidden": true})));
    assert_eq!(refused(&hidden, 10012, "type_not_allowed_in_session")["rule_id"], "hidden-continuous-only");
    world.day();
    let yesterday = order(json!({"price": 3000, "tif_ext": "gtd", "expires_at": "2026-11-20"}));
    let data = refused(&world.call(&mut alice, "private/buy", yesterday), 11030, "expiry_passed");
    // Ninety days after 2026-11-21: 9 days of November, 31 of December, 31 of January, 19 of
    // February.
    let days = "the venue day is 2026-11-21, ninety days later 2027-02-19";
    assert!(data["reason"].as_str().is_some_and(|text| text.starts_with(days)), "{data}");
    let far = order(json!({"price": 3000, "tif_ext": "gtd", "expires_at": "2027-11-20"}));
    refused(&world.call(&mut alice, "private/buy", far), 11030, "expiry_too_far");
    world.turn(Phase::PostClose);
    let closed = world.call(&mut alice, "private/buy", order(json!({"price": 3000})));
    let data = refused(&closed, 10012, "not_open");
    assert!(data["reason"].as_str().is_some_and(|text| text.starts_with("the session is post_close")), "{data}");
}

/// Some parameters have two spellings. A refusal uses the spelling that the client sent.
#[test]
fn refusal_names_the_parameter_as_it_was_sent() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let limits = InstrumentLimits { max_lots: Some(Lots(50)), max_notional_units: None, collar_bps: None };
    world.venue.must(Command::SetInstrumentLimits { instrument: NPN, limits });
    let sent = |world: &mut World, alice: &mut Session, mut params: Value| {
        params["instrument_name"] = json!("NPN_ZAR");
        let reply = world.call(alice, "private/buy", params);
        reply.value["error"]["data"].clone()
    };
    for (params, param) in [
        (json!({"amount": 51, "price": 3000}), "amount"),
        (json!({"contracts": 51, "price": 3000}), "contracts"),
        (json!({"amount": 5, "price": 3000, "display_amount": 0}), "display_amount"),
        (json!({"amount": 5, "price": 3000, "max_show": 0}), "max_show"),
        (json!({"amount": 5, "type": "market", "time_in_force": "gtc"}), "time_in_force"),
        (json!({"amount": 5, "type": "market", "tif_ext": "gtc"}), "tif_ext"),
        (json!({"amount": 5, "type": "market", "pitwire_time_in_force": "gtc"}), "pitwire_time_in_force"),
        (
            json!({"amount": 5, "price": 3000, "hidden": true, "pitwire_minimum_execution": 0}),
            "pitwire_minimum_execution",
        ),
        (
            json!({"amount": 5, "price": 3000, "tif_ext": "gtd", "pitwire_expires_at": "2090-01-01"}),
            "pitwire_expires_at",
        ),
    ] {
        let data = sent(&mut world, &mut alice, params);
        assert_eq!(data["param"], param, "{data}");
        let shown = data["remedy"].as_str().expect("a remedy").contains("display_amount");
        assert_eq!(shown, param == "display_amount", "{data}");
    }
    world.turn(Phase::IntradayCall);
    for name in ["hidden", "pitwire_hidden"] {
        let data = sent(&mut world, &mut alice, json!({"amount": 5, "price": 3000, name: true}));
        assert_eq!((&data["name"], &data["param"]), (&json!("type_not_allowed_in_session"), &json!(name)));
    }
}

#[test]
fn price_outside_band_names_nearest_valid_price() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let rules = TradingRules { band_pct: Some(15), ..TradingRules::default() };
    world.venue.must(Command::SetTradingRules { instrument: NPN, rules: Box::new(rules) });
    // The band is 15 % around 3200.00, that is 480.00 either way: 2720.00 to 3680.00, both inside.
    for (price, nearest) in [(2719.99, 2720.0), (1.0, 2720.0), (3680.01, 3680.0)] {
        let reply = world.call(&mut alice, "private/buy", order(json!({"price": price})));
        let data = refused(&reply, 10023, "price_outside_band");
        assert_eq!((&data["limit"], &data["param"]), (&json!(nearest), &json!("price")), "{price}");
        world.ok(&mut alice, "private/buy", order(json!({"price": nearest})));
    }
    let answer = world.ok(&mut alice, "public/ticker", json!({"instrument_name": "NPN_ZAR"})).result().clone();
    fields(&answer, &[("min_price", json!(2720.0)), ("max_price", json!(3680.0))]);
    let answer = world.ok(&mut alice, "public/get_instrument", json!({"instrument_name": "NPN_ZAR"})).result().clone();
    fields(
        &answer,
        &[
            ("underlying_type", json!("equity")),
            ("price_band_percent", json!(15)),
            ("allocation", json!("price_time")),
            ("price_improvement", json!(0.01)),
        ],
    );
    let answer = world.ok(&mut alice, "public/get_instrument", json!({"instrument_name": "AGL_ZAR"})).result().clone();
    assert_eq!(answer["segment"], "ZA01");
    let answer = world.ok(&mut alice, "public/get_instrument", json!({"instrument_name": "BTC_USDC"})).result().clone();
    assert_eq!((answer.get("segment"), answer.get("allocation")), (None, None), "nothing where nothing is set");
}

#[test]
fn auction_shows_curves_and_uncross_fills_all_accounts() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.turn(Phase::IntradayCall);
    world.limit(&mut bob, "sell", "NPN_ZAR", 8.0, 3190.0);
    let market = order(json!({"type": "market"}));
    assert_eq!(entered(&world.ok(&mut alice, "private/buy", market))["order_state"], "open", "it waits for the price");
    world.limit(&mut alice, "buy", "NPN_ZAR", 5.0, 3200.0);
    let asked = json!({"instrument_name": "NPN_ZAR"});
    let call = world.ok(&mut alice, "public/pitwire_get_auction", asked.clone()).result().clone();
    // At 3190 and at 3200, 5 + 5 buy and 8 sell: the surplus is on the buy side, so the higher
    // price wins.
    fields(
        &call,
        &[
            ("type", json!("indicative")),
            ("session", json!("intraday_auction")),
            ("indicative_price", json!(3200.0)),
            ("indicative_volume", json!(8.0)),
            ("imbalance", json!(2.0)),
            ("imbalance_side", json!("buy")),
            (
                "curves",
                json!({"beside_buy": 5.0, "beside_sell": 0.0, "buy": [[3200.0, 10.0]], "sell": [[3190.0, 8.0]]}),
            ),
        ],
    );
    let ticker = world.ok(&mut alice, "public/ticker", asked.clone()).result().clone();
    fields(
        &ticker,
        &[("state", json!("open")), ("session", json!("intraday_auction")), ("indicative_price", json!(3200.0))],
    );
    world.turn(Phase::Continuous);
    let result = world.ok(&mut alice, "public/pitwire_get_auction", asked.clone()).result().clone();
    assert_eq!(result["type"], "result");
    fields(
        &result["uncross"],
        &[("session", json!("intraday_auction")), ("price", json!(3200.0)), ("volume", json!(8.0))],
    );
    let fills = world.ok(&mut alice, "private/get_user_trades_by_instrument", asked.clone()).result()["trades"].clone();
    assert_eq!(fills.as_array().map(Vec::len), Some(2));
    let day = world.ok(&mut alice, "public/pitwire_get_statistics", asked).result().clone();
    fields(
        &day,
        &[
            ("open", json!(3200.0)),
            ("open_derivation", json!("first_trade")),
            ("volume", json!(8.0)),
            ("turnover", json!(25600.0)),
            ("trades", json!(2)),
            ("vwap", json!(3200.0)),
            // Two lots of Alice's are left at 3200.
            ("bid_vwap", json!(3200.0)),
        ],
    );
}

#[test]
fn mass_cancel_by_segment_and_by_connection() {
    let mut world = World::new();
    let (mut one, mut two) = (world.login("alice"), world.login("alice"));
    world.limit(&mut one, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.limit(&mut one, "buy", "AGL_ZAR", 1.0, 500.0);
    world.limit(&mut two, "buy", "NPN_ZAR", 1.0, 3001.0);
    world.limit(&mut two, "buy", "BTC_USDC", 0.01, 50_000.0);
    world.ok(&mut two, "private/buy", order(json!({"type": "stop_market", "trigger_price": 3300})));
    let mut cancel = |session: &mut Session, method: &str, params: Value| {
        world.ok(session, &format!("private/{method}"), params).result().clone()
    };
    let (client, npn) = (json!("client"), json!("NPN_ZAR"));
    assert_eq!(
        cancel(&mut one, "cancel_all_by_instrument", json!({"instrument_name": npn, "pitwire_scope": client})),
        1
    );
    assert_eq!(
        cancel(&mut two, "cancel_all_by_segment", json!({"segment": "ZA01", "pitwire_scope": client, "type": "stop"})),
        1
    );
    let answer = cancel(&mut two, "cancel_all_by_segment", json!({"segment": "ZA01", "detailed": true}));
    let names: Vec<&Value> = answer.as_array().expect("a list").iter().map(|of| &of["instrument_name"]).collect();
    assert_eq!(names, [&json!("NPN_ZAR"), &json!("AGL_ZAR")]);
    assert_eq!(cancel(&mut one, "cancel_all", json!({"pitwire_scope": client})), 0, "what is left is the other's");
    assert_eq!(cancel(&mut two, "cancel_all", json!({"pitwire_scope": client})), 1);
    let token = world.token("alice");
    let mut session = world.by_header(&format!("Bearer {token}"));
    let over_http = world.get(&mut session, "private/cancel_all", "pitwire_scope=client");
    assert_eq!(over_http.code(), 10030);
}

#[test]
fn operator_changes_sessions_by_instrument_and_segment() {
    let mut world = World::new();
    let (mut operator, mut alice) = (world.login("operator"), world.login("alice"));
    let phase = |world: &World, at: u32| world.venue.engine.market(InstrumentId(at)).expect("a market").phase();
    let name = json!({"instrument_name": "NPN_ZAR"});
    world.ok(&mut operator, "private/pitwire_pause", name.clone());
    assert_eq!(phase(&world, 0), Phase::Pause);
    let reopen = json!({"instrument_name": "NPN_ZAR", "seconds": 30});
    world.ok(&mut operator, "private/pitwire_reopen", reopen);
    let now_ms = world.venue.now.as_millis();
    let answer = world.ok(&mut alice, "public/pitwire_get_session", name.clone()).result().clone();
    fields(
        &answer,
        &[("session", json!("reopening_auction")), ("reason", json!("operator")), ("ends", json!(now_ms + 30_000))],
    );
    let longer = json!({"instrument_name": "NPN_ZAR", "ends_at": now_ms + 90_000});
    world.ok(&mut operator, "private/pitwire_extend", longer);
    let answer = world.ok(&mut alice, "public/pitwire_get_session", name.clone()).result().clone();
    fields(&answer, &[("reason", json!("extended")), ("ends", json!(now_ms + 90_000))]);
    world.ok(&mut operator, "private/pitwire_resume", name.clone());
    assert_eq!(phase(&world, 0), Phase::Continuous);
    world.ok(&mut operator, "private/pitwire_volatility_call", name.clone());
    let answer = world.ok(&mut alice, "public/pitwire_get_session", name.clone()).result().clone();
    fields(&answer, &[("session", json!("volatility_auction")), ("ends", json!(now_ms + 300_000))]);
    world.ok(&mut operator, "private/pitwire_resume", name.clone());

    world.ok(&mut operator, "private/pitwire_halt", json!({"segment": "ZA01"}));
    assert_eq!(
        [phase(&world, 0), phase(&world, 1), phase(&world, 2)],
        [Phase::Halted, Phase::Continuous, Phase::Halted]
    );
    let again = world.call(&mut operator, "private/pitwire_halt", json!({"segment": "ZA01"}));
    let data = refused(&again, 11030, "session_not_allowed");
    assert!(
        data["reason"]
            .as_str()
            .is_some_and(|text| text.starts_with("NPN_ZAR: ") && text.ends_with("(0 of 2 done before it)"))
    );
    world.ok(&mut operator, "private/pitwire_resume", json!({"segment": "ZA01"}));
    let price = json!({"instrument_name": "NPN_ZAR", "price": 3123.45});
    world.ok(&mut operator, "private/pitwire_closing_price", price);
    let answer = world.ok(&mut alice, "public/pitwire_get_session", name).result().clone();
    fields(&answer, &[("closing_price", json!(3123.45)), ("closing_price_derivation", json!("manual"))]);
    for (method, params) in [
        ("extend", json!({"instrument_name": "NPN_ZAR"})),
        ("reopen", json!({"instrument_name": "NPN_ZAR", "seconds": 0})),
    ] {
        assert_eq!(world.call(&mut operator, &format!("private/pitwire_{method}"), params).code(), -32602, "{method}");
    }
    let member = world.call(&mut alice, "private/pitwire_pause", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!(member.value["error"]["data"]["name"], "operator_only");
}
