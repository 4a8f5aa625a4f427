//! Versions of the rules. A journal is replayed under the version that wrote it.

/// Version of the rules that this engine follows. Every group of a journal names its version.
///
/// Version 1 accepted market orders with time in force GTC, and checked post-only before the
/// display of an order that cannot rest. Version 2 did not read reduce-only. Version 3 had no
/// smallest display. Version 4 had no record of used signatures.
pub const RULE_VERSION: u16 = 5;

/// The version that commands follow. The default is [`RULE_VERSION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleVersion(pub u16);

impl Default for RuleVersion {
    fn default() -> Self {
        RuleVersion(RULE_VERSION)
    }
}

impl RuleVersion {
    pub fn is_first(self) -> bool {
        self.0 < 2
    }

    pub fn reads_reduce_only(self) -> bool {
        self.0 >= 3
    }

    pub fn has_min_display(self) -> bool {
        self.0 >= 4
    }
}
