//! Typed requests have the same checks and effects as the JSON methods.

use crate::common::{ALICE, World};
use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{
    AmendRequest, AnswerProgress, OrderRequest, RequestContext, RequestedTif, RequestedType, Session, Transport,
    TypedAnswer, TypedRequest,
};
use pitwire_model::{Decimal, Expiry, InstrumentId, OrderId, Side, TimeInForce, parse_date};
use pitwire_projections::OrderRecord;
use serde_json::{Value, json};

fn execute(world: &mut World, session: &mut Session, request: &TypedRequest<'_>) -> Result<TypedAnswer, RpcError> {
    let clock = world.clock();
    let context = RequestContext { venue: &mut world.venue, session, transport: Transport::WebSocket, clock };
    world.dispatcher.execute(context, request).answer
}

fn enter(world: &mut World, session: &mut Session, order: OrderRequest<'_>) -> Result<OrderId, RpcError> {
    match execute(world, session, &TypedRequest::Enter(order))? {
        TypedAnswer::Order(order) => Ok(order),
        other => panic!("{other:?}"),
    }
}

fn shares(world: &World) -> InstrumentId {
    world.venue.engine.instrument_named("NPN_ZAR").expect("a share").spec.id
}

fn number(text: &str) -> Option<Decimal> {
    Some(Decimal::parse(text).expect("a number"))
}

/// Five shares at 3000.00.
fn five(world: &World) -> OrderRequest<'static> {
    OrderRequest {
        instrument: shares(world),
        side: Side::Buy,
        order_type: RequestedType::Limit,
        tif: None,
        expiry: None,
        is_hidden: false,
        is_post_only: false,
        quantity: number("5"),
        price: number("3000"),
        trigger_price: None,
        display: None,
        minimum_execution: None,
        client_order_id: "",
    }
}

fn five_as_json(more: &Value) -> Value {
    let mut params = json!({"instrument_name": "NPN_ZAR", "amount": 5, "type": "limit", "price": 3000});
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    params
}

#[test]
fn typed_order_is_refused_for_the_reason_of_the_json_order() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "sell", "NPN_ZAR", 5.0, 3000.0);
    let base = five(&world);
    let day = Some(RequestedTif::Whole(TimeInForce::Day));
    let date = parse_date("2027-01-31").map(Expiry::Day);
    let cases: Vec<(OrderRequest<'_>, Value)> = vec![
        (OrderRequest { quantity: None, ..base.clone() }, json!({"amount": null})),
        (OrderRequest { quantity: number("0"), ..base.clone() }, json!({"amount": 0})),
        (OrderRequest { quantity: number("0.5"), ..base.clone() }, json!({"amount": 0.5})),
        (OrderRequest { quantity: number("1000000"), ..base.clone() }, json!({"amount": 1_000_000})),
        (OrderRequest { price: None, ..base.clone() }, json!({"price": null})),
        (OrderRequest { price: number("-1"), ..base.clone() }, json!({"price": -1})),
        (OrderRequest { price: number("3000.001"), ..base.clone() }, json!({"price": 3000.001})),
        (OrderRequest { order_type: RequestedType::Stop, ..base.clone() }, json!({"type": "stop_market"})),
        (OrderRequest { trigger_price: number("3100"), ..base.clone() }, json!({"trigger_price": 3100})),
        (OrderRequest { minimum_execution: number("1"), ..base.clone() }, json!({"min_execution": 1})),
        (OrderRequest { display: number("0.5"), ..base.clone() }, json!({"display_amount": 0.5})),
        (OrderRequest { display: number("6"), ..base.clone() }, json!({"display_amount": 6})),
        (OrderRequest { tif: Some(RequestedTif::GoodTillDate), ..base.clone() }, json!({"time_in_force": "gtd"})),
        (OrderRequest { tif: Some(RequestedTif::GoodTillTime), ..base.clone() }, json!({"time_in_force": "gtt"})),
        (
            OrderRequest { tif: day, expiry: date, ..base.clone() },
            json!({"time_in_force": "day", "expires_at": "2027-01-31"}),
        ),
        (
            OrderRequest { order_type: RequestedType::Market, is_hidden: true, ..base.clone() },
            json!({"type": "market", "hidden": true}),
        ),
        (OrderRequest { is_post_only: true, ..base.clone() }, json!({"post_only": true, "reject_post_only": true})),
    ];
    for (request, more) in cases {
        let json = world.call(&mut alice, "private/buy", five_as_json(&more));
        let expected = json.value["error"]["data"]["name"].as_str().unwrap_or_else(|| panic!("{more}: {}", json.text));
        let refused = enter(&mut world, &mut alice, request).expect_err("it is refused as JSON");
        assert_eq!(refused.name, expected, "{more}: {}", refused.reason);
    }
    let mut stranger = world.connect();
    let refused = enter(&mut world, &mut stranger, base).expect_err("no login");
    assert_eq!(refused.name, "authorization_required");
}

#[test]
fn typed_order_is_the_json_order() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let record = |world: &World, order: OrderId| -> OrderRecord {
        let record = world.venue.views.account(ALICE).and_then(|book| book.order(order)).expect("an order");
        OrderRecord { id: OrderId(0), ..record.clone() }
    };
    let base = five(&world);
    let day = Some(RequestedTif::Whole(TimeInForce::Day));
    let cases = [
        (
            OrderRequest { display: number("2"), tif: day, ..base.clone() },
            json!({"max_show": 2, "time_in_force": "day"}),
        ),
        (OrderRequest { is_post_only: true, ..base.clone() }, json!({"post_only": true, "reject_post_only": true})),
        (
            OrderRequest { order_type: RequestedType::StopLimit, trigger_price: number("3100"), ..base.clone() },
            json!({"type": "stop_limit", "trigger_price": 3100}),
        ),
        (
            OrderRequest { quantity: number("20"), is_hidden: true, ..base.clone() },
            json!({"amount": 20, "hidden": true}),
        ),
    ];
    for (request, more) in cases {
        let typed = enter(&mut world, &mut alice, request).unwrap_or_else(|error| panic!("{more}: {error:?}"));
        let json = world.ok(&mut alice, "private/buy", five_as_json(&more));
        let id = json.result()["order"]["order_id"].as_str().expect("a text").parse().expect("a number");
        assert_eq!(record(&world, typed), record(&world, OrderId(id)), "{more}");
    }
    // A second request with the same client order id returns the first order.
    let named = OrderRequest { client_order_id: "c-1", ..base };
    let first = enter(&mut world, &mut alice, named.clone()).expect("it is accepted");
    assert_eq!(enter(&mut world, &mut alice, named).expect("it is the first one"), first);
    let amend = AmendRequest {
        order: first,
        quantity: number("3"),
        price: number("2999.5"),
        trigger_price: None,
        display: None,
        minimum_execution: None,
    };
    execute(&mut world, &mut alice, &TypedRequest::Amend(amend)).expect("it is amended");
    assert_eq!(record(&world, first).lots.0, 3);
    let absent = AmendRequest { trigger_price: number("3100"), ..amend };
    let refused = execute(&mut world, &mut alice, &TypedRequest::Amend(absent)).expect_err("it has no trigger");
    assert_eq!(refused.name, "not_amendable");
    execute(&mut world, &mut alice, &TypedRequest::Cancel(first)).expect("it is cancelled");
    let refused = execute(&mut world, &mut alice, &TypedRequest::Cancel(first)).expect_err("it has ended");
    assert_eq!(refused.name, "already_closed");
}

#[test]
fn typed_mass_cancel_of_many_orders_takes_several_turns() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for _ in 0..300 {
        let one = OrderRequest { quantity: number("1"), price: number("2999"), ..five(&world) };
        enter(&mut world, &mut alice, one).expect("it is accepted");
    }
    let everything = TypedRequest::CancelAll(None);
    let Ok(TypedAnswer::Later(mut work)) = execute(&mut world, &mut alice, &everything) else {
        panic!("300 orders are too many for one turn")
    };
    let advance = |work: &mut pitwire_deribit::LongAnswer, world: &mut World| {
        work.advance(&mut world.venue, 100, || 0).expect("no journal fails")
    };
    while matches!(advance(&mut work, &mut world), AnswerProgress::Unfinished) {}
    assert_eq!(work.cancelled(), 300);
    assert!(matches!(execute(&mut world, &mut alice, &everything), Ok(TypedAnswer::Cancelled(0))));
}
