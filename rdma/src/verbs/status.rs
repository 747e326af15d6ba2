//! How a work request ended, by name.

use std::fmt;

use super::sys;

/// The status of a completion that is not a success.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub(super) u32);

impl Status {
    /// The request was dropped from the queue, as an earlier one had failed.
    pub(crate) const FLUSHED: Self = Self(sys::IBV_WC_WR_FLUSH_ERR);

    /// The device, or its driver, does not work.
    pub(super) const FATAL: Self = Self(sys::IBV_WC_FATAL_ERR);

    /// The peer broke the protocol; no device says so.
    pub(super) const PROTOCOL: Self = Self(u32::MAX);

    /// The receive that this completes does not hold the frame that came: it is as good as lost.
    pub(super) fn is_length(self) -> bool {
        self.0 == sys::IBV_WC_LOC_LEN_ERR
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            sys::IBV_WC_LOC_LEN_ERR => "LOC_LEN_ERR: the message does not fit the buffer",
            sys::IBV_WC_LOC_QP_OP_ERR => "LOC_QP_OP_ERR: the queue pair cannot do that",
            sys::IBV_WC_LOC_PROT_ERR => "LOC_PROT_ERR: the local memory is not registered",
            sys::IBV_WC_WR_FLUSH_ERR => "WR_FLUSH_ERR: the connection had failed before",
            sys::IBV_WC_BAD_RESP_ERR => "BAD_RESP_ERR: the peer's adapter gave a wrong answer",
            sys::IBV_WC_LOC_ACCESS_ERR => "LOC_ACCESS_ERR: the local memory may not be written",
            sys::IBV_WC_REM_INV_REQ_ERR => "REM_INV_REQ_ERR: the peer's adapter does not do that",
            sys::IBV_WC_REM_ACCESS_ERR => "REM_ACCESS_ERR: outside the memory the peer registered",
            sys::IBV_WC_REM_OP_ERR => "REM_OP_ERR: the peer's adapter failed",
            sys::IBV_WC_RETRY_EXC_ERR => "RETRY_EXC_ERR: the peer's adapter does not answer",
            sys::IBV_WC_RNR_RETRY_EXC_ERR => "RNR_RETRY_EXC_ERR: the peer posted no receive",
            sys::IBV_WC_REM_ABORT_ERR => "REM_ABORT_ERR: the peer's adapter gave up",
            sys::IBV_WC_FATAL_ERR => "FATAL_ERR: the adapter failed",
            sys::IBV_WC_RESP_TIMEOUT_ERR => "RESP_TIMEOUT_ERR: the answer came too late",
            sys::IBV_WC_GENERAL_ERR => "GENERAL_ERR: the adapter does not say why",
            u32::MAX => "the peer broke the protocol",
            other => return write!(f, "status {other}: unknown"),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_text() {
        assert!(Status(12).to_string().starts_with("RETRY_EXC_ERR"));
        assert_eq!(Status(99).to_string(), "status 99: unknown");
    }
}
