//! The scope that each private method needs.

use crate::access::{AccessLevel, Area};

/// Returns the scope of a method. `None` for methods that any login may call, and for operators'
/// methods, which check it themselves. A private method that is not listed needs the right to
/// trade.
pub fn required(method: &str) -> Option<(Area, AccessLevel)> {
    let name = method.strip_prefix("private/")?;
    match name {
        "logout" | "subscribe" | "unsubscribe" | "unsubscribe_all" => None,
        _ if name.starts_with("pitwire_") => None,
        "get_account_summary" | "get_account_summaries" | "get_subaccounts" | "get_cancel_on_disconnect" => {
            Some((Area::Account, AccessLevel::Read))
        }
        "enable_cancel_on_disconnect" | "disable_cancel_on_disconnect" => Some((Area::Account, AccessLevel::ReadWrite)),
        _ if name.starts_with("get_") => Some((Area::Trade, AccessLevel::Read)),
        _ => Some((Area::Trade, AccessLevel::ReadWrite)),
    }
}

/// Whether a method changes the state of the venue, of the account or of the connection. A private
/// method that is not known to only read counts as changing.
pub fn changes_state(method: &str) -> bool {
    let Some(name) = method.strip_prefix("private/") else { return false };
    let own = name.strip_prefix("pitwire_").unwrap_or(name);
    !own.starts_with("get_") && !matches!(name, "pitwire_status" | "pitwire_explain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_change_state_need_write_scope() {
        for method in crate::method_names().filter(|name| name.starts_with("private/")) {
            let changes = !["get_", "subscribe", "unsubscribe", "logout", "pitwire_"]
                .iter()
                .any(|start| method["private/".len()..].starts_with(start));
            let writes = required(method).is_some_and(|(_, level)| level == AccessLevel::ReadWrite);
            assert_eq!(writes, changes, "{method}");
        }
        let readers: Vec<&str> =
            crate::method_names().filter(|name| name.starts_with("private/pitwire_") && !changes_state(name)).collect();
        assert_eq!(
            readers,
            [
                "private/pitwire_explain",
                "private/pitwire_get_reports",
                "private/pitwire_status",
                "private/pitwire_get_accounts",
                "private/pitwire_get_credentials",
                "private/pitwire_get_orders",
                "private/pitwire_get_simulations",
                "private/pitwire_get_simulation_file"
            ]
        );
        for public in crate::method_names().filter(|name| name.starts_with("public/")) {
            assert_eq!(required(public), None);
        }
    }
}
