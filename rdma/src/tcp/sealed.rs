//! An encrypted link: the stream is cut into records, each sealed.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    sync::Arc,
};

use mio::net::TcpStream;

use super::plain::{TURN_LEN, ended, would_block};
use crate::{
    Error, Result,
    bootstrap::{HEAD_LEN as RECORD_HEAD_LEN, Opener, PLAIN_LEN_MAX, Sealer},
    packet::HEAD_LEN,
    stream::{Assembler, Inbox, Inlet, Outlet, Source, pack},
};

/// Sealed bytes that may wait to be sent: a few records.
const WAITING_MAX: usize = 256 << 10;
/// Bytes that are read at once: a few records.
const READ_LEN: usize = 256 << 10;

/// Bytes before a record that is filled. Without them it would lie in its page where its sealed
/// form does in its own, but for the two bytes of a length: memcpy is slow between such places.
const LEAD: usize = 512;

pub(super) fn ends(
    stream: Arc<TcpStream>,
    sealer: Sealer,
    opener: Opener,
) -> (Box<dyn Outlet>, Box<dyn Inlet>) {
    let (plain, sealed) = (vec![0; LEAD], Vec::new());
    let outlet = Sender { stream: stream.clone(), sealer, plain, sealed, sent: 0 };
    let inlet = Receiver {
        stream,
        opener,
        buffer: vec![0; READ_LEN].into(),
        filled: 0,
        opened: vec![0; PLAIN_LEN_MAX].into(),
        assembler: Assembler::new(),
    };
    (Box::new(outlet), Box::new(inlet))
}

/// The sending end.
#[derive(Debug)]
struct Sender {
    stream: Arc<TcpStream>,
    sealer: Sealer,
    // The record that is being filled, behind `LEAD` bytes.
    plain: Vec<u8>,
    sealed: Vec<u8>,
    // Bytes of `sealed` that are sent.
    sent: usize,
}

impl Sender {
    fn seal(&mut self) -> io::Result<()> {
        if self.plain.len() == LEAD {
            return Ok(());
        }
        if self.sent >= WAITING_MAX {
            self.sealed.drain(..self.sent);
            self.sent = 0;
        }
        self.sealer.seal(&self.plain[LEAD..], &mut self.sealed).map_err(io::Error::other)?;
        self.plain.truncate(LEAD);
        Ok(())
    }

    /// Sends what is sealed, as far as the wire takes it.
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.sealed.len() {
            match (&*self.stream).write(&self.sealed[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if would_block(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.sealed.clear();
        self.sent = 0;
        Ok(())
    }

    /// Whether another record may be sealed now.
    fn has_room(&mut self) -> io::Result<bool> {
        if self.sealed.len() - self.sent < WAITING_MAX {
            return Ok(true);
        }
        self.send()?;
        Ok(self.sealed.len() - self.sent < WAITING_MAX)
    }
}

impl Outlet for Sender {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        let (mut taken, all) = (already, HEAD_LEN + payload.len());
        while taken < all && self.has_room()? {
            taken += pack(head, payload, taken, &mut self.plain, LEAD + PLAIN_LEN_MAX);
            if taken < all {
                self.seal()?;
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<bool> {
        if self.has_room()? {
            self.seal()?;
        }
        self.send()?;
        Ok(self.plain.len() == LEAD && self.sealed.is_empty())
    }

    fn close(&mut self) {
        // One that is closed already is what is wanted.
        _ = self.flush();
        _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// The receiving end.
#[derive(Debug)]
struct Receiver {
    stream: Arc<TcpStream>,
    opener: Opener,
    buffer: Box<[u8]>,
    // Bytes of the buffer that are not opened yet.
    filled: usize,
    opened: Box<[u8]>,
    assembler: Assembler,
}

impl Receiver {
    /// Opens every record that is whole.
    fn open(&mut self, inbox: &mut dyn Inbox) -> Result {
        let mut at = 0;
        while let Some((head, rest)) = self.buffer[at..self.filled].split_first_chunk() {
            let len = usize::from(u16::from_le_bytes(*head));
            let Some(record) = rest.get(..len) else { break };
            let opened = self.opener.open(record, &mut self.opened)?;
            at += RECORD_HEAD_LEN + len;
            self.assembler.feed(&self.opened[..opened], inbox)?;
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }
}

impl Inlet for Receiver {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize> {
        let mut received = 0;
        while received < TURN_LEN {
            let room = &mut self.buffer[self.filled..];
            let len = room.len();
            let count = match (&*self.stream).read(room) {
                Ok(0) => return Err(ended()),
                Ok(count) => count,
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(Error::os("receiving from a peer")(error)),
            };
            (received, self.filled) = (received + count, self.filled + count);
            self.open(inbox)?;
            if count < len {
                break;
            }
        }
        Ok(received)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{net, ptr::NonNull};

    use super::*;
    use crate::bootstrap::ciphers;

    #[test]
    fn a_word_at_the_end_of_a_record_goes_into_the_next() {
        for room in 1..HEAD_LEN + 8 {
            let listener = net::TcpListener::bind((net::Ipv4Addr::LOCALHOST, 0)).unwrap();
            let stream = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = Arc::new(TcpStream::from_std(stream));
            let [(sealer, _), _] = ciphers();
            let plain = vec![0; LEAD + PLAIN_LEN_MAX - room];
            let mut sender = Sender { stream, sealer, plain, sealed: Vec::new(), sent: 0 };
            let word = [7; 8];
            // SAFETY: the word is borrowed for the call, and only read.
            let source = unsafe { Source::new(NonNull::from(&word).cast(), word.len()) };
            assert_eq!(sender.push(&[1; HEAD_LEN], source, 0).unwrap(), HEAD_LEN + word.len());
            let whole = [&[1; HEAD_LEN][..], &word].concat();
            assert_eq!(sender.plain[LEAD..], whole, "after a record that had room for {room}");
        }
    }
}
