//! Access levels of a login, and the `scope` texts that request and report them.
//!
//! Holds       1. a login never gets more access than its key has;
//!             2. a word that would narrow a login is obeyed or refused, never ignored; a word that
//!                would widen it beyond what this venue offers is ignored.

use core::net::IpAddr;
use std::fmt::Write as _;

use crate::codec::RpcError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessLevel {
    None,
    Read,
    ReadWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Account,
    Trade,
    Wallet,
    /// Control of the venue. The dialect does not have this area.
    Operator,
}

/// Access of a key or a login, by area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub account: AccessLevel,
    pub trade: AccessLevel,
    pub wallet: AccessLevel,
    pub operator: AccessLevel,
}

impl AccessLevel {
    fn parse(text: &str) -> Option<AccessLevel> {
        match text {
            "none" => Some(AccessLevel::None),
            "read" => Some(AccessLevel::Read),
            "read_write" => Some(AccessLevel::ReadWrite),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            AccessLevel::None => "none",
            AccessLevel::Read => "read",
            AccessLevel::ReadWrite => "read_write",
        }
    }
}

impl Area {
    const ALL: [Area; 4] = [Area::Account, Area::Trade, Area::Wallet, Area::Operator];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Area::Account => "account",
            Area::Trade => "trade",
            Area::Wallet => "wallet",
            Area::Operator => "operator",
        }
    }
}

impl Access {
    /// Access of a member's key: it trades and moves no money.
    pub const MEMBER: Access = Access {
        account: AccessLevel::ReadWrite,
        trade: AccessLevel::ReadWrite,
        wallet: AccessLevel::Read,
        operator: AccessLevel::None,
    };
    pub const OPERATOR: Access = Access { operator: AccessLevel::ReadWrite, ..Access::MEMBER };

    /// Returns the access of an operator's key, or of a member's.
    pub const fn of(operator: bool) -> Access {
        if operator { Access::OPERATOR } else { Access::MEMBER }
    }

    pub fn is_operator(&self) -> bool {
        self.operator == AccessLevel::ReadWrite
    }

    pub(crate) const fn level(&self, area: Area) -> AccessLevel {
        match area {
            Area::Account => self.account,
            Area::Trade => self.trade,
            Area::Wallet => self.wallet,
            Area::Operator => self.operator,
        }
    }

    fn level_mut(&mut self, area: Area) -> &mut AccessLevel {
        match area {
            Area::Account => &mut self.account,
            Area::Trade => &mut self.trade,
            Area::Wallet => &mut self.wallet,
            Area::Operator => &mut self.operator,
        }
    }
}

/// The `scope` that a login requests.
#[derive(Debug, Default)]
pub(crate) struct ScopeRequest {
    /// Name of the session that several connections share. A login without a name ends with its
    /// connection.
    pub session: Option<String>,
    /// Requested levels. An area that is not listed gets the level of the key.
    levels: Vec<(Area, AccessLevel)>,
    pub expires_s: Option<u64>,
    pub address: Option<IpAddr>,
}

impl ScopeRequest {
    const LONGEST_NAME: usize = 64;

    /// Reads the scope of a login, words such as `trade:read session:bot expires:60`. Words of
    /// other servers are ignored.
    ///
    /// # Errors
    /// A refusal that names the word, if a session has no name or one above 64 bytes, if seconds
    /// are not a number above zero, or if an address or a level is malformed.
    pub fn parse(text: &str) -> Result<ScopeRequest, RpcError> {
        let mut asked = ScopeRequest::default();
        for word in text.split_whitespace() {
            let Some((key, value)) = word.split_once(':') else { continue };
            let malformed = |what: &str| RpcError::invalid("scope", format!("{word:.80}: {what}"));
            match key {
                "session" if value.is_empty() || value.len() > Self::LONGEST_NAME => {
                    return Err(malformed("a session's name has 1 to 64 bytes"));
                }
                "session" => asked.session = Some(value.into()),
                "expires" => {
                    let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                    asked.expires_s = Some(seconds.ok_or_else(|| malformed("a whole number of seconds above zero"))?);
                }
                "ip" => asked.address = Some(value.parse().map_err(|_| malformed("not an address"))?),
                _ => {
                    let Some(area) = Area::ALL.into_iter().find(|area| area.name() == key) else { continue };
                    let level = AccessLevel::parse(value).ok_or_else(|| malformed("read, read_write or none"))?;
                    asked.levels.push((area, level));
                }
            }
        }
        Ok(asked)
    }

    /// Returns the requested access, limited to `most`.
    pub fn within(&self, most: Access) -> Access {
        let mut granted = most;
        for (area, level) in &self.levels {
            let granted = granted.level_mut(*area);
            *granted = (*granted).min(*level);
        }
        granted
    }
}

/// Returns the scope text that answers a login. Its first word is `session`, if there is one.
pub(crate) fn describe(session: &str, access: Access, expires_s: Option<u64>, address: Option<IpAddr>) -> String {
    let mut text = session.to_owned();
    for area in Area::ALL {
        let level = access.level(area);
        if area == Area::Operator && level == AccessLevel::None {
            continue;
        }
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{space}{}:{}", area.name(), level.name());
    }
    if let Some(seconds) = expires_s {
        let _ = write!(text, " expires:{seconds}");
    }
    if let Some(address) = address {
        let _ = write!(text, " ip:{address}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(text: &str, most: Access) -> String {
        ScopeRequest::parse(text)
            .map_or_else(|error| error.name.into(), |asked| describe("", asked.within(most), None, None))
    }

    #[test]
    fn requested_scope_narrows_and_never_widens() {
        let reader = Access { trade: AccessLevel::Read, wallet: AccessLevel::None, ..Access::MEMBER };
        for (asked, most, expected) in [
            ("", Access::MEMBER, "account:read_write trade:read_write wallet:read"),
            ("session:x", Access::OPERATOR, "account:read_write trade:read_write wallet:read operator:read_write"),
            ("trade:read", Access::MEMBER, "account:read_write trade:read wallet:read"),
            ("trade:read trade:read_write", Access::MEMBER, "account:read_write trade:read wallet:read"),
            ("trade:read_write wallet:read_write", reader, "account:read_write trade:read wallet:none"),
            ("operator:read_write", Access::MEMBER, "account:read_write trade:read_write wallet:read"),
            ("operator:none", Access::OPERATOR, "account:read_write trade:read_write wallet:read"),
            ("block_trade:read_write mainaccount", Access::MEMBER, "account:read_write trade:read_write wallet:read"),
            ("trade:reed", Access::MEMBER, "invalid_params"),
            ("expires:0", Access::MEMBER, "invalid_params"),
            ("expires:soon", Access::MEMBER, "invalid_params"),
            ("ip:elsewhere", Access::MEMBER, "invalid_params"),
            ("session:", Access::MEMBER, "invalid_params"),
        ] {
            assert_eq!(granted(asked, most), expected, "{asked}");
        }
    }
}
