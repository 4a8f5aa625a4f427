//! The amount above which an order must be confirmed.

use pitwire_client::{Number, Value};
use pitwire_failure::Failure;

/// Sets the bound in every command.
const CONFIRM_ABOVE: &str = "PITWIRE_CONFIRM_ABOVE";

/// The bound of the option `--confirm-above` or of the environment.
#[derive(Clone, Debug, Default)]
pub struct ConfirmationBound(Option<Number>);

impl ConfirmationBound {
    /// Returns the bound of the option, or else of the environment.
    ///
    /// # Errors
    ///
    /// Fails if the variable is not a number.
    pub fn find(option: Option<&Number>) -> Result<Self, Failure> {
        let bound = match (option, std::env::var(CONFIRM_ABOVE)) {
            (Some(bound), _) => Some(bound.clone()),
            (None, Ok(text)) if !text.is_empty() => {
                Some(text.parse().map_err(|error: String| Failure::usage(format!("{CONFIRM_ABOVE}: {error}")))?)
            }
            (None, _) => None,
        };
        Ok(ConfirmationBound(bound))
    }

    /// Returns the reason to ask before an order of this amount, or `None` for a small one.
    pub fn reason(&self, amount: &Number) -> Option<String> {
        let bound = self.0.as_ref()?;
        // A number with more digits than a price or amount has counts as large.
        let is_large = match (Value::parse(amount.as_str()), Value::parse(bound.as_str())) {
            (Some(amount), Some(bound)) => amount > bound,
            _ => true,
        };
        is_large.then(|| format!("the amount {amount} is above {bound}"))
    }
}

impl From<Number> for ConfirmationBound {
    fn from(bound: Number) -> Self {
        ConfirmationBound(Some(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_amount_above_the_bound_needs_confirmation() {
        let reason = |bound: &str, amount: &str| {
            ConfirmationBound::from(bound.parse::<Number>().unwrap()).reason(&amount.parse().unwrap())
        };
        assert_eq!(reason("10", "10.0"), None);
        assert_eq!(reason("10", "10.01").as_deref(), Some("the amount 10.01 is above 10"));
        assert!(reason("10", "123456789012345678901234567890123456789012345678901").is_some());
        assert_eq!(ConfirmationBound::default().reason(&"1e9".parse().unwrap()), None);
    }
}
