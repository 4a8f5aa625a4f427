//! Requests to the kernel, and its completions.
//!
//! Start at    [`UringRequest`].

/// The kind of a request; the number names a socket, a batch entry or a request to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UringRequest {
    Accept(u32),
    Wake(u32),
    Receive(u32),
    Send(u32),
    PollWritable(u32),
    Shutdown(u32),
    Close(u32),
    /// Move a descriptor into the table of the ring, or out of it.
    Install,
    /// A cancellation. Its result is not needed.
    Ignored,
}

impl UringRequest {
    /// Packs the request into the data that its completion returns.
    pub fn pack(self) -> u64 {
        let (kind, number) = match self {
            UringRequest::Accept(number) => (0_u64, number),
            UringRequest::Wake(number) => (1, number),
            UringRequest::Receive(number) => (2, number),
            UringRequest::Send(number) => (3, number),
            UringRequest::PollWritable(number) => (4, number),
            UringRequest::Shutdown(number) => (5, number),
            UringRequest::Close(number) => (6, number),
            UringRequest::Install => (7, 0),
            UringRequest::Ignored => (8, 0),
        };
        kind << 32 | u64::from(number)
    }

    /// Unpacks the data of a completion.
    #[allow(clippy::cast_possible_truncation)]
    pub fn unpack(data: u64) -> Self {
        let number = data as u32;
        match data >> 32 {
            0 => UringRequest::Accept(number),
            1 => UringRequest::Wake(number),
            2 => UringRequest::Receive(number),
            3 => UringRequest::Send(number),
            4 => UringRequest::PollWritable(number),
            5 => UringRequest::Shutdown(number),
            6 => UringRequest::Close(number),
            7 => UringRequest::Install,
            _ => UringRequest::Ignored,
        }
    }
}

/// The kernel's answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub request: UringRequest,
    /// As a system call returns it: below zero the number of an error.
    pub result: i32,
    /// The buffer that holds the arrived bytes.
    pub buffer: Option<u16>,
    /// More completions of the same request will follow.
    pub has_more: bool,
}
