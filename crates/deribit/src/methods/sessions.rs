//! Public queries about sessions, auctions, statistics and rules. The dialect does not have them.

use crate::codec::objects::{AuctionFacts, Curves, SessionFacts, StatisticsFacts};
use crate::codec::{Json, RpcError, objects, rules};
use pitwire_model::{InstrumentId, Lots, Side, Ticks};
use pitwire_projections::SessionView;

use crate::call::{Call, MethodResult};

pub fn get_rules(call: &mut Call<'_>) -> MethodResult {
    rules::write(&mut call.json());
    Ok(())
}

fn view<'a>(call: &'a Call<'_>, id: InstrumentId) -> Result<&'a SessionView, RpcError> {
    call.venue.views().session(id).ok_or_else(|| RpcError::new("unknown_instrument", "no such instrument"))
}

/// Answers with the session of an instrument and its next ones.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn get_session(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let facts = SessionFacts::of(view(call, id)?);
    let Call { venue, out, .. } = call;
    if let Some(market) = venue.engine().market(id) {
        objects::session(&mut Json::new(out), &market.spec, venue.now(), &facts);
    }
    Ok(())
}

/// Answers with the auction and, on request, both curves with at most `depth` levels per side.
///
/// # Errors
/// A refusal if the instrument is missing or unknown, or if `depth` is not a whole number.
pub fn get_auction(call: &mut Call<'_>) -> MethodResult {
    const MOST_LEVELS: usize = 10_000;
    let id = call.instrument_id()?;
    let depth = usize::try_from(call.params.integer("depth")?.unwrap_or(200)).unwrap_or(0).min(MOST_LEVELS);
    let facts = AuctionFacts::of(view(call, id)?);
    let market = call.market(id)?;
    let [bids, asks] = [Side::Buy, Side::Sell].map(|side| market.book().levels(side).collect::<Vec<(Ticks, Lots)>>());
    let curves = Curves::of(&bids, &asks, facts.indicative.as_ref(), depth);
    let Call { venue, out, .. } = call;
    if let Some(market) = venue.engine().market(id) {
        let shown = Some(&curves).filter(|_| facts.collects());
        objects::auction(&mut Json::new(out), &market.spec, venue.now(), &facts, shown);
    }
    Ok(())
}

/// Answers with the figures of the day of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn get_statistics(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let market = call.market(id)?;
    let sums = |side| {
        let worth = |price: Ticks, lots: Lots| u128::from(price.0.unsigned_abs()) * u128::from(lots.0);
        market.book().levels(side).fold((0_u128, 0_u64), |(value, total), (price, lots)| {
            (value.saturating_add(worth(price, lots)), total.saturating_add(lots.0))
        })
    };
    let book = [sums(Side::Buy), sums(Side::Sell)];
    let Call { venue, out, .. } = call;
    if let (Some(market), Some(view)) = (venue.engine().market(id), venue.views().session(id)) {
        let off_book = venue.views().off_book(id);
        let facts = StatisticsFacts { spec: &market.spec, at: venue.now(), view, off_book, book };
        objects::statistics(&mut Json::new(out), &facts);
    }
    Ok(())
}
