//! Messages between two ends that have shaken hands.
//!
//! ```text
//! message  length (4, little-endian), content; cut into records
//! ```

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use super::{
    Connection,
    noise::cipher::{HEAD_LEN, Opener, PLAIN_LEN_MAX, Sealer, TAG_LEN},
    timed::{Timed, step},
};
use crate::{Error, Result, descriptor};

/// Bytes of a message's length.
const LENGTH_LEN: usize = 4;

/// An authenticated stream, by which this end and the other tell each other things.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    address: SocketAddr,
    sealer: Sealer,
    opener: Opener,
    is_plain: bool,
}

impl Channel {
    /// `is_plain` where both ends would not encrypt what follows the meeting.
    pub(super) fn new(
        stream: TcpStream,
        (sealer, opener): (Sealer, Opener),
        is_plain: bool,
    ) -> Result<Self> {
        stream.set_nodelay(true).map_err(Error::os("setting TCP_NODELAY"))?;
        let address = stream.peer_addr().map_err(Error::os("getpeername"))?;
        Ok(Self { stream, address, sealer, opener, is_plain })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether something has come, or the other end has gone.
    pub(super) fn has_input(&self) -> bool {
        descriptor::await_input(&mut [descriptor::input(&self.stream)], Some(Duration::ZERO))
    }

    /// Sends `content`, all of it until `deadline`.
    pub(super) fn send(&mut self, content: &[u8], deadline: Instant) -> Result {
        let len = u32::try_from(content.len()).expect("a message is short");
        let message = [&len.to_le_bytes(), content].concat();
        let mut records = Vec::new();
        for part in message.chunks(PLAIN_LEN_MAX) {
            self.sealer.seal(part, &mut records)?;
        }
        let mut timed = Timed::new(&self.stream, deadline);
        step("it to hear this end", || timed.write_all(&records))
    }

    /// Receives one message, `len_max` bytes at most, all of it until `deadline`.
    pub(super) fn receive(&mut self, len_max: usize, deadline: Instant) -> Result<Vec<u8>> {
        let mut message = Vec::new();
        self.receive_record(&mut message, deadline)?;
        let Some((length, _)) = message.split_first_chunk::<LENGTH_LEN>() else {
            return Err(Error::protocol("a message without length"));
        };
        let len = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if len > len_max {
            return Err(Error::protocol(format!(
                "a message of {len} bytes; {len_max} are allowed"
            )));
        }
        // The buffer grows with what has come, not with what was claimed.
        while message.len() < LENGTH_LEN + len {
            self.receive_record(&mut message, deadline)?;
        }
        if message.len() > LENGTH_LEN + len {
            return Err(Error::protocol("more than a message"));
        }
        Ok(message.split_off(LENGTH_LEN))
    }

    /// Appends what the next record holds to `message`.
    fn receive_record(&mut self, message: &mut Vec<u8>, deadline: Instant) -> Result {
        let mut timed = Timed::new(&self.stream, deadline);
        let record = step("it to speak", || {
            let mut head = [0; HEAD_LEN];
            timed.read_exact(&mut head)?;
            let mut record = vec![0; usize::from(u16::from_le_bytes(head))];
            timed.read_exact(&mut record)?;
            Ok(record)
        })?;
        let start = message.len();
        message.resize(start + record.len().saturating_sub(TAG_LEN), 0);
        let opened = self.opener.open(&record, &mut message[start..])?;
        // An empty one would keep its receiver here for ever.
        if opened == 0 {
            return Err(Error::protocol("an empty record"));
        }
        Ok(())
    }

    /// The stream for other use.
    pub(super) fn into_connection(self) -> Result<Connection> {
        let Self { stream, address, sealer, opener, is_plain } = self;
        let timeouts = stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(None));
        timeouts.map_err(Error::os("setting a socket's timeout"))?;
        let (cipher, how) = if is_plain {
            (None, "in the clear, as both ends are on one host or trust the network")
        } else {
            (Some((sealer, opener)), "encrypted")
        };
        let reason = format!("TCP to {address}, {how}");
        Ok(Connection { stream, cipher, reason })
    }
}
