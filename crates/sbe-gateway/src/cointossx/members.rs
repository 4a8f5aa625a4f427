//! The members of the profile: CoinTossX's numbers and passwords, and the logins behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::path::Path;

use pitwire_failure::read_text;
use serde::Deserialize;

/// Longest password of the schema, in bytes.
const MAX_PASSWORD_BYTES: usize = 10;

/// One line of the member file.
#[derive(Clone, Deserialize)]
struct Member {
    #[serde(rename = "CompID")]
    comp_id: i32,
    #[serde(rename = "Password")]
    password: String,
    #[serde(rename = "ClientID")]
    client_id: String,
    #[serde(rename = "ClientSecret")]
    secret: String,
}

/// Why a member file is refused.
#[derive(Debug)]
pub struct MemberFileError(String);

impl fmt::Display for MemberFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemberFileError {}

/// The members by their compID.
#[derive(Clone)]
pub struct CtxMembers(BTreeMap<i32, Member>);

/// A password or a secret must not reach a log.
impl fmt::Debug for CtxMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl CtxMembers {
    /// Returns CoinTossX's first two clients with their passwords, as the demo accounts.
    pub fn demo() -> Self {
        let member = |comp_id, password: &str, client_id: &str| {
            let secret = format!("{client_id}-secret");
            (comp_id, Member { comp_id, password: password.into(), client_id: client_id.into(), secret })
        };
        CtxMembers([member(1, "test111111", "demo-a"), member(2, "test222222", "demo-b")].into())
    }

    /// Reads a CSV file with the columns CompID, Password, ClientID and ClientSecret.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if a line is not a member.
    pub fn read(path: &Path) -> Result<Self, MemberFileError> {
        let text = File::open(path)
            .and_then(read_text)
            .map_err(|error| MemberFileError(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(|MemberFileError(why)| MemberFileError(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, MemberFileError> {
        let (mut members, mut client_ids) = (BTreeMap::new(), BTreeSet::new());
        for line in csv::Reader::from_reader(text.as_bytes()).deserialize::<Member>() {
            let member = line.map_err(|error| MemberFileError(error.to_string()))?;
            let comp_id = member.comp_id;
            if !(1..=MAX_PASSWORD_BYTES).contains(&member.password.len()) {
                let why = format!("compID {comp_id}: a password has 1 to {MAX_PASSWORD_BYTES} bytes");
                return Err(MemberFileError(why));
            }
            if !client_ids.insert(member.client_id.clone()) {
                return Err(MemberFileError(format!("client id {} has two compIDs", member.client_id)));
            }
            if members.insert(comp_id, member).is_some() {
                return Err(MemberFileError(format!("compID {comp_id} occurs twice")));
            }
        }
        Ok(CtxMembers(members))
    }

    /// Returns the client id of a member, and its secret if the password is right.
    pub(crate) fn login(&self, comp_id: i32, password: &str) -> (String, Option<&str>) {
        match self.0.get(&comp_id) {
            Some(member) => {
                let secret = (member.password == password).then_some(member.secret.as_str());
                (member.client_id.clone(), secret)
            }
            None => (format!("compID-{comp_id}"), None),
        }
    }

    pub(crate) fn comp_id(&self, client_id: &str) -> i32 {
        self.0.values().find(|member| member.client_id == client_id).map_or(0, |member| member.comp_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "CompID,Password,ClientID,ClientSecret\n";

    #[test]
    fn wrong_password_and_unknown_member_have_no_secret() {
        let members = CtxMembers::parse(&format!("{HEADER}7,pass,carol,long-secret\n")).unwrap();
        assert_eq!(members.login(7, "pass"), ("carol".into(), Some("long-secret")));
        assert_eq!(members.login(7, "word"), ("carol".into(), None));
        assert_eq!(members.login(8, "pass"), ("compID-8".into(), None));
        assert_eq!(members.comp_id("carol"), 7);
    }

    #[test]
    fn malformed_member_file_is_refused_by_name() {
        for (lines, why) in [
            ("x,pass,carol,s\n", "invalid digit"),
            ("7,12345678901,carol,s\n", "1 to 10 bytes"),
            ("7,p,carol,s\n7,p,dave,s\n", "occurs twice"),
            ("7,p,carol,s\n8,p,carol,s\n", "two compIDs"),
            ("7,p\n", "fields"),
        ] {
            let error = CtxMembers::parse(&format!("{HEADER}{lines}")).unwrap_err().to_string();
            assert!(error.contains(why), "{lines:?}: {error}");
        }
    }
}
