//! The form of a venue's streams.
//!
//! Start at    [`Form::of`].

/// The form of the venue's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Channels of the JSON-RPC dialect.
    Deribit,
    /// Streams by URL.
    Binance,
}

impl Form {
    /// Guesses the form from a URL: `/ws/api/v2` is the dialect, `/stream` and `/ws` are streams.
    pub fn of(url: &str) -> Option<Self> {
        let path = url.split_once("://")?.1.split_once('/').map_or("", |(_, path)| path);
        let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
        match path {
            _ if path.ends_with("ws/api/v2") => Some(Form::Deribit),
            "stream" | "ws" => Some(Form::Binance),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_follows_from_the_path() {
        for (url, form) in [
            ("ws://127.0.0.1:8080/ws/api/v2", Some(Form::Deribit)),
            ("wss://www.deribit.com/ws/api/v2/", Some(Form::Deribit)),
            ("wss://stream.binance.com:9443/stream?streams=a@trade", Some(Form::Binance)),
            ("wss://stream.binance.com:9443/ws", Some(Form::Binance)),
            ("ws://127.0.0.1:8080/", None),
            ("ws://127.0.0.1:8080", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(Form::of(url), form, "{url}");
        }
    }
}
