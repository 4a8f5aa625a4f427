//! The TOML form of a flow. `docs/flow.md` describes every key.
//!
//! Start at    [`FlowFile::parse`].

use std::sync::Arc;

use pitwire_engine::{Engine, Market};
use pitwire_failure::Failure;
use pitwire_model::{AccountId, FlowSetting, InstrumentId, Label, Phase, Side};
use pitwire_order_flow::{
    Act, DemoMarket, EventType, Exponential, FlowConfig, FlowError, FlowModel, FlowStyle, Kernel, MOST_PARTS,
    MOST_TYPES, Matrix, check_parameter,
};
use serde::{Deserialize, Serialize};

/// A file with flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFile {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where the parameters are from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(rename = "flow")]
    pub flows: Vec<FlowDef>,
}

/// The flow of some instruments. Each instrument has its own process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowDef {
    /// Names of instruments. Without names: every instrument that no other flow names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instruments: Vec<String>,
    /// Scales time so that the long-run rate becomes this. Without it the rates are as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_per_s: Option<f64>,
    #[serde(default)]
    pub orders: OrdersDef,
    /// Price levels that a market maker quotes on each side; 0 for none, which is the default.
    #[serde(default)]
    pub maker_levels: usize,
    /// Mean time after which a resting order is cancelled, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<f64>,
    /// Typical size of an order, in lots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_lots: Option<f64>,
    /// Orders placed on each side of an empty book at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds_per_side: Option<u32>,
    #[serde(rename = "type")]
    pub types: Vec<TypeDef>,
    /// Exponentials; none for independent Poisson processes.
    #[serde(default, rename = "kernel")]
    pub kernels: Vec<KernelDef>,
}

/// How prices and sizes of orders are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrdersDef {
    /// From the state of the book, with lifetimes.
    #[default]
    Book,
    /// As the published simulation draws them (CoinTossX), without cancels.
    Published,
}

/// An event type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeDef {
    pub name: String,
    /// Base rate in events per second, without excitation.
    pub base_per_s: f64,
    /// Name of an [`Act`].
    pub order: String,
    #[serde(default)]
    pub side: SideDef,
    /// Size of the orders, in typical orders.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub size: f64,
    /// Whether the type has intensity zero while the spread is one tick.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_spread: bool,
}

/// The side of an event type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideDef {
    Buy,
    Sell,
    /// Drawn for each event.
    #[default]
    Either,
}

/// An exponential of the kernel. An event of a column's type raises the rate of a row's type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelDef {
    pub jump_per_s: Matrix,
    pub decay_per_s: DecayDef,
}

/// Decay rates per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DecayDef {
    /// One rate for every pair of types.
    Common(f64),
    Pairs(Matrix),
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde calls
fn is_one(value: &f64) -> bool {
    value.to_bits() == 1.0_f64.to_bits()
}

impl FlowFile {
    /// Parses and checks a file. The names of instruments are not checked.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the line, the flow or the parameter.
    pub fn parse(text: &str) -> Result<FlowFile, Failure> {
        let failed = |what: &str| {
            Failure::new(format!("cannot use the flow: {what}"))
                .remedy("docs/flow.md lists every key; `pitwire flow show published` prints an example")
        };
        let fits = |bytes: usize, what: &str| {
            let most = FlowSetting::MOST_TEXT_BYTES;
            if bytes > most {
                Err(failed(&format!("it has {bytes} bytes{what}, and {most} is the most")))
            } else {
                Ok(())
            }
        };
        fits(text.len(), "")?;
        if text.contains('\0') {
            return Err(failed("it contains a NUL byte"));
        }
        let file: FlowFile = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or_else(String::new, |before| format!("line {}: ", before.matches('\n').count() + 1));
            failed(&format!("{line}{}", error.message().trim_end().replace('\n', ", ")))
        })?;
        if file.flows.is_empty() {
            return Err(failed("it has no [[flow]]"));
        }
        for (number, flow) in (1..).zip(&file.flows) {
            flow.model().map_err(|failure| in_part(&format!("flow {number}"), failure))?;
        }
        // The journal stores the text that this crate writes, not the text of the file.
        fits(file.to_text()?.len(), " with every number written out")?;
        Ok(file)
    }

    /// Returns the file as text. Floats keep every digit.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file has no TOML form.
    pub fn to_text(&self) -> Result<String, Failure> {
        toml::to_string(self).map_err(|error| Failure::new(format!("cannot write the flow as TOML: {error}")))
    }

    /// Returns the configuration of the flows for the instruments of `engine`.
    ///
    /// # Errors
    ///
    /// Returns a failure if a name is unknown or has two flows, or a parameter is out of range.
    pub fn config(&self, engine: &Engine, house: Vec<AccountId>) -> Result<FlowConfig, Failure> {
        let mut named: Vec<InstrumentId> = Vec::new();
        for name in self.flows.iter().flat_map(|flow| &flow.instruments) {
            named.push(instrument(engine, name)?.spec.id);
        }
        let mut markets = Vec::new();
        for (number, flow) in (1..).zip(&self.flows) {
            let model = Arc::new(flow.model().map_err(|failure| in_part(&format!("flow {number}"), failure))?);
            let own: Vec<&Market> = if flow.instruments.is_empty() {
                let is_free = |market: &&Market| market.phase() != Phase::Deleted && !named.contains(&market.spec.id);
                engine.markets().iter().filter(is_free).collect()
            } else {
                flow.instruments.iter().map(|name| instrument(engine, name)).collect::<Result<_, _>>()?
            };
            if flow.orders == OrdersDef::Published {
                let is_alone = self.flows.len() == 1 && flow.instruments.len() <= 1;
                let first = own.first().map(|market| market.spec.id);
                let instrument = first.filter(|_| is_alone).ok_or_else(|| {
                    Failure::new("orders = \"published\" trades one instrument, in a file with one flow")
                        .remedy("name one instrument, or use orders = \"book\"")
                })?;
                return Ok(FlowConfig { house, style: FlowStyle::Paper { instrument, model } });
            }
            markets.extend(own.into_iter().map(|market| flow.market(engine, market, &model)));
        }
        let config = FlowConfig { house, style: FlowStyle::Demo(markets) };
        config.check(engine).map_err(|error| refused(&error))?;
        Ok(config)
    }
}

fn refused(error: &FlowError) -> Failure {
    Failure::new(error.to_string()).remedy(error.remedy())
}

/// Puts the name of the part that is wrong before the failure.
pub(crate) fn in_part(part: &str, failure: Failure) -> Failure {
    let (what, remedy) = failure.into_parts();
    let failure = Failure::new(format!("{part}: {what}"));
    match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

fn instrument<'e>(engine: &'e Engine, name: &str) -> Result<&'e Market, Failure> {
    let found = engine.instrument_named(name).filter(|market| market.phase() != Phase::Deleted);
    found.ok_or_else(|| {
        Failure::new(format!("the flow names {name:?}, which is no instrument of this venue"))
            .remedy("public/get_instruments and the page list the names")
    })
}

impl FlowDef {
    /// Returns the event types with their kernel.
    ///
    /// # Errors
    ///
    /// Returns a failure if a parameter is out of range or the spectral radius is 1 or more.
    pub fn model(&self) -> Result<FlowModel, Failure> {
        #[allow(clippy::cast_precision_loss)] // a huge number is refused whatever its last digits
        let numbers = [
            ("events_per_s", self.events_per_s),
            ("maker_levels", Some(self.maker_levels as f64)),
            ("lifetime_s", self.lifetime_s),
            ("typical_lots", self.typical_lots),
            ("seeds_per_side", self.seeds_per_side.map(f64::from)),
        ];
        for (name, value) in numbers {
            value.map_or(Ok(()), |value| check_parameter(name, value)).map_err(|error| refused(&error))?;
        }
        let types: Vec<EventType> = self.types.iter().map(TypeDef::event_type).collect::<Result<_, _>>()?;
        for (at, kind) in types.iter().enumerate() {
            let name = kind.name.as_str();
            if name.is_empty() || types[..at].iter().any(|earlier| earlier.name == kind.name) {
                return Err(Failure::new(format!("the type name {name:?} is empty or used twice"))
                    .remedy("give each [[flow.type]] a name"));
            }
        }
        let count = types.len();
        // Before the matrices are made: a short text can ask for gigabytes of them.
        if count > MOST_TYPES || self.kernels.len() > MOST_PARTS {
            return Err(Failure::new(format!(
                "{count} types and {} kernels: expected at most {MOST_TYPES} and {MOST_PARTS}",
                self.kernels.len()
            ))
            .remedy("join types or kernels that are alike"));
        }
        let parts = self.kernels.iter().map(|kernel| Exponential {
            jump: kernel.jump_per_s.clone(),
            decay: match &kernel.decay_per_s {
                DecayDef::Common(rate) => vec![vec![*rate; count]; count],
                DecayDef::Pairs(rates) => rates.clone(),
            },
        });
        let kernel = Kernel { base: self.types.iter().map(|kind| kind.base_per_s).collect(), parts: parts.collect() };
        let model = FlowModel { kernel, types, has_labels: true };
        model.check().map_err(|error| refused(&error))?;
        Ok(model)
    }

    fn market(&self, engine: &Engine, market: &Market, model: &Arc<FlowModel>) -> DemoMarket {
        let natural = DemoMarket::natural(engine, market, Arc::clone(model));
        DemoMarket {
            events_per_second: self.events_per_s.unwrap_or_else(|| model.kernel.total_rate()),
            maker_levels: self.maker_levels,
            lifetime: self.lifetime_s.unwrap_or(natural.lifetime),
            typical_lots: self.typical_lots.unwrap_or(natural.typical_lots),
            seeds_per_side: self.seeds_per_side.unwrap_or(natural.seeds_per_side),
            ..natural
        }
    }
}

impl TypeDef {
    fn event_type(&self) -> Result<EventType, Failure> {
        let name = Label::new(&self.name).ok_or_else(|| {
            Failure::new(format!("the type name {:?} has more than {} bytes", self.name, Label::MAX_BYTES))
                .remedy("shorten it")
        })?;
        let act = Act::NAMES.iter().find(|(name, _)| *name == self.order).map(|(_, act)| *act);
        let act = act.ok_or_else(|| {
            Failure::new(format!("type {:?}: unknown order {:?}", self.name, self.order))
                .remedy(format!("give one of {}", Act::NAMES.map(|(name, _)| name).join(", ")))
        })?;
        let side = match self.side {
            SideDef::Buy => Some(Side::Buy),
            SideDef::Sell => Some(Side::Sell),
            SideDef::Either => None,
        };
        Ok(EventType { name, act, side, size: self.size, needs_spread: self.needs_spread })
    }
}
