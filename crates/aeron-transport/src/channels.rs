//! The channels of clients, as an option names them.
//!
//! Start at    [`AeronChannels::parse`].

/// The channels of one kind of client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AeronChannels {
    /// Channel on which the clients publish their requests.
    pub requests: String,
    /// Channel on which the server publishes the answers.
    pub answers: String,
}

impl AeronChannels {
    /// Reads `REQUESTS,ANSWERS`.
    ///
    /// # Errors
    /// Fails with an example if the text is not two channels.
    pub fn parse(text: &str) -> Result<AeronChannels, String> {
        let is_channel = |text: &str| text.starts_with("aeron:") && !text.contains(['\0', ',']);
        match text.split_once(',') {
            Some((requests, answers)) if is_channel(requests) && is_channel(answers) => {
                Ok(AeronChannels { requests: requests.into(), answers: answers.into() })
            }
            _ => Err("give the channels of requests and answers, such as aeron:ipc,aeron:ipc".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_two_addresses_of_aeron() {
        let udp = "aeron:udp?endpoint=127.0.0.1:9201,aeron:udp?control=127.0.0.1:9202|control-mode=dynamic";
        assert_eq!(AeronChannels::parse(udp).unwrap().answers, "aeron:udp?control=127.0.0.1:9202|control-mode=dynamic");
        for wrong in ["", "aeron:ipc", "aeron:ipc,", "aeron:ipc,tcp:here", "aeron:ipc,aeron:ipc,/dev/shm/aeron"] {
            assert!(AeronChannels::parse(wrong).unwrap_err().contains("aeron:ipc,aeron:ipc"), "{wrong:?}");
        }
    }
}
