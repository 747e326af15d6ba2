//! A stream to a peer, both ends of which have proved who they are.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use super::{
    noise::cipher::{HEAD_LEN, Opener, PLAIN_LEN_MAX, Sealer, TAG_LEN},
    timed::{Timed, step},
};
use crate::{Error, Result};

/// What the nodes of two hosts have of each other when they have met.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    // `None` where nothing is encrypted.
    pub(crate) cipher: Option<(Sealer, Opener)>,
    // What was chosen and why, for people.
    pub(crate) reason: String,
}

impl Connection {
    /// Tells the peer something short, until `deadline` at most.
    pub(crate) fn send(&mut self, content: &[u8], deadline: Instant) -> Result {
        assert!(content.len() <= PLAIN_LEN_MAX, "what is said is short");
        let mut record = Vec::new();
        match &mut self.cipher {
            Some((sealer, _)) => sealer.seal(content, &mut record)?,
            None => {
                let len = u16::try_from(content.len()).expect("a record is short");
                record.extend(len.to_le_bytes());
                record.extend(content);
            }
        }
        let mut timed = Timed::new(&self.stream, deadline);
        step("a peer to hear this node", || timed.write_all(&record))
    }

    /// What the peer tells, until `deadline` at most.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>> {
        let mut timed = Timed::new(&self.stream, deadline);
        let mut record = step("a peer to speak", || {
            let mut head = [0; HEAD_LEN];
            timed.read_exact(&mut head)?;
            let mut record = vec![0; usize::from(u16::from_le_bytes(head))];
            timed.read_exact(&mut record)?;
            Ok(record)
        })?;
        if let Some((_, opener)) = &mut self.cipher {
            let mut opened = vec![0; record.len().saturating_sub(TAG_LEN)];
            opener.open(&record, &mut opened)?;
            record = opened;
        }
        Ok(record)
    }

    /// Ends the conversation: what follows has its own deadlines.
    pub(crate) fn settle(&self) -> Result {
        let timeouts =
            self.stream.set_read_timeout(None).and_then(|()| self.stream.set_write_timeout(None));
        timeouts.map_err(Error::os("setting a socket's timeout"))
    }
}
