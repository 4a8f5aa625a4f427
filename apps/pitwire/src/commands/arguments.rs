//! Values of options that several commands take.

/// A name in `Host` headers, without scheme and port.
pub fn host_name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let has_letters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=63).contains(&label.len()) && has_letters
    };
    match text.split('.').all(is_label) && text.len() <= 253 {
        true => Ok(text.to_owned()),
        false => Err("give a bare name like md.example.com, without https:// and without a port".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_bare_name() {
        for name in ["md.example.com", "venue", "10-0-0-1.internal", "a_b.c"] {
            assert_eq!(host_name(name).as_deref(), Ok(name));
        }
        for wrong in ["", "http://a.b", "a.b:80", "a..b", "a b", ".a", "*.a", &"a".repeat(64)] {
            assert!(host_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
