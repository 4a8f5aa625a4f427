//! The bug zoo: faults of kinds that real engines have had, each behind a door of its own.
//!
//! Does        let one chosen fault bite, in a build with the feature `zoo`; `tests/zoo.rs` shows that somebody notices.
//! Holds       without the feature a door is the constant `false`, and no fault is in the program.
//! Start at    [`bites`]; what each fault is, its line in the list says.

macro_rules! faults {
    ($($variant:ident = $number:literal, $what:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Fault { $($variant = $number,)* }

        #[cfg(feature = "zoo")]
        impl Fault {
            pub const ALL: &'static [Fault] = &[$(Fault::$variant),*];

            /// What goes wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Fault::$variant => $what,)* }
            }
        }
    };
}

faults! {
    TakersPrice = 1, "a trade at the incoming order's price";
    PhantomLevel = 2, "a level that is used up is not told as gone";
    ReducedLosesPlace = 3, "less of the same loses its place";
    PartialFill = 4, "a fill-or-kill order trades in part";
    RefreshKeepsPlace = 5, "an iceberg's next part keeps the place of the last";
    OwnOrdersMeet = 6, "self-match prevention looks away";
    KeysForgotten = 7, "self-match prevention knows accounts, not keys";
    ImmediateRests = 8, "what is left of an immediate order rests";
    AnybodyCancels = 9, "a cancel asks for no owner";
    PostOnlyTrades = 10, "a post-only order is not held back";
    MissedTime = 11, "the time of a GTT order passes unnoticed";
    DateTooEarly = 12, "a GTD order ends a day early";
    NinetyOneDays = 13, "a GTC order lives a day too long";
    DayOutlived = 14, "a DAY order outlives its day";
    NotInjected = 15, "a GFA order is left aside when a call begins";
    CallOutlived = 16, "an order for one call outlives it";
    NotParked = 17, "a GFA order stays in the book after its call";
    SecondPrice = 18, "one trade of an uncross at a second price";
    ReferenceForgotten = 19, "equally good prices: the middle in place of the reference";
    SurplusForgotten = 20, "equal volumes: the surplus does not decide";
    MinimumForgotten = 21, "an uncross gives a hidden order less than its minimum";
    StaticStale = 22, "an uncross leaves the static reference as it was";
    HaltUncrosses = 23, "a call that is broken off uncrosses";
    CallBreachesFreely = 24, "a call executes at a price that breaches";
    HiddenFirst = 25, "a hidden order trades before visible ones of its price";
    NoImprovement = 26, "a hidden order trades at its limit, however much better the market is";
    MinimumPassed = 27, "a hidden order trades less than its minimum";
    RemainderStays = 28, "what is left of a hidden order below its minimum stays";
    FilterForgotten = 29, "a new touch starts no filter";
    ArrivalForgotten = 30, "the arrival of a hidden order starts no filter";
    CascadeStopped = 31, "stops elected by an elected stop's trade wait";
    ElectionByNumber = 32, "stops are elected by number, not by distance";
    StopPassed = 33, "a stop waits until its price is passed, not reached";
    ToleranceInside = 34, "a price at the tolerance executes";
    DynamicMoves = 35, "the dynamic reference follows the fills of the order that is tested";
    BandIgnored = 36, "the price band is not judged";
    CrossMovesLast = 37, "the closing price cross moves the last price";
    VwapRoundsDown = 38, "half a tick of the closing price is lost";
    ExecutedForgotten = 39, "an amend's total leaves out what has traded";
    ScheduleIgnored = 40, "an order is taken for a session that does not come";
    SessionTaken = 41, "a hidden order is taken in a call";
    ReserveIgnored = 42, "a hidden order may be smaller than the minimum reserve size";
    LeftoverToYoungest = 43, "pro-rata: the lot left over goes to the youngest";
    ChangeTold = 44, "the public change number counts hidden orders";
    HiddenQuoted = 45, "post-only sees hidden orders";
    MoneyKept = 46, "an order that self-match prevention ends keeps its money reserved";
    RemainingKept = 47, "a session that began is still to come";
    AmendKeepsTime = 48, "an amend in a call goes to the back but keeps its time";
    ImprovedCollar = 49, "the collar's edge is rounded outward";
    ExpiryUnchecked = 50, "an order is taken that has expired already";
    HoursIgnored = 51, "a trade is reported outside the hours";
    OwnReportConfirmed = 52, "a reporter confirms for the other party";
    ReportMovesLast = 53, "a reported trade moves the last price";
}

#[cfg(feature = "zoo")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Opens one door for every engine of the process, or shuts it.
#[cfg(feature = "zoo")]
pub fn choose(fault: Option<Fault>) {
    CHOSEN.store(fault.map_or(0, |fault| fault as u8), std::sync::atomic::Ordering::Relaxed);
}

/// Whether this is the fault of this run.
#[cfg(feature = "zoo")]
pub(crate) fn bites(fault: Fault) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

#[cfg(not(feature = "zoo"))]
#[inline(always)]
pub(crate) const fn bites(_: Fault) -> bool {
    false
}
