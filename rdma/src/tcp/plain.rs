//! A link in the clear.
//!
//! Short packets are gathered and sent together; a long payload goes from where it is, by one call
//! with what was gathered before it. At the other end it is read to where it is to be.

use std::{
    io::{self, ErrorKind},
    net::Shutdown,
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::Arc,
};

use mio::net::TcpStream;

use crate::{
    Error, Result,
    descriptor::{receive_parts, send_parts},
    packet::HEAD_LEN,
    stream::{Assembler, Inbox, Inlet, Outlet, Source},
};

/// Payloads up to this are copied, as that takes less time than a part of its own.
const COPIED_MAX: usize = 8 << 10;
/// Bytes that may be gathered.
const GATHERED_MAX: usize = 64 << 10;
/// Bytes that are read at once, besides those that go to where they are to be.
const READ_LEN: usize = 64 << 10;
/// Bytes that are read before it is others' turn.
pub(super) const TURN_LEN: usize = 4 << 20;

pub(super) fn ends(stream: Arc<TcpStream>) -> (Box<dyn Outlet>, Box<dyn Inlet>) {
    let outlet = Sender { stream: stream.clone(), gathered: Vec::new(), sent: 0 };
    let buffer = vec![0; READ_LEN].into_boxed_slice();
    let inlet = Receiver { stream, buffer, assembler: Assembler::new() };
    (Box::new(outlet), Box::new(inlet))
}

/// The sending end.
#[derive(Debug)]
struct Sender {
    stream: Arc<TcpStream>,
    gathered: Vec<u8>,
    // Bytes of `gathered` that are sent.
    sent: usize,
}

impl Sender {
    /// Sends what was gathered, and then as much of `payload` as the wire takes; returns how much
    /// that was.
    fn send(&mut self, payload: Source) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let rest = &self.gathered[self.sent..];
            let payload = payload.skip(taken);
            if rest.is_empty() && payload.len() == 0 {
                break;
            }
            // SAFETY: a vector's bytes, borrowed here, stay where they are during the call below.
            let gathered = unsafe { Source::new(NonNull::from(rest).cast(), rest.len()) };
            let both = [gathered.part(), payload.part()];
            let parts = match (rest.is_empty(), payload.len()) {
                (true, _) => &both[1..],
                (false, 0) => &both[..1],
                _ => &both,
            };
            // SAFETY: both parts are mapped: the first is this vector's, and the second is vouched
            // for by who made the source.
            let count = match unsafe { send_parts(self.stream.as_raw_fd(), parts) } {
                Err(error) if would_block(&error) => break,
                sent => sent?,
            };
            let of_gathered = count.min(rest.len());
            self.sent += of_gathered;
            taken += count - of_gathered;
        }
        if self.sent == self.gathered.len() {
            self.gathered.clear();
            self.sent = 0;
        }
        Ok(taken)
    }

    fn nothing() -> Source {
        // SAFETY: no bytes.
        unsafe { Source::new(NonNull::dangling(), 0) }
    }
}

impl Outlet for Sender {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        let is_long = payload.len() > COPIED_MAX;
        if already == 0 {
            if self.gathered.len() >= GATHERED_MAX && !self.flush()? {
                return Ok(0);
            }
            self.gathered.extend_from_slice(head);
            if !is_long {
                payload.copy_to(&mut self.gathered);
                return Ok(HEAD_LEN + payload.len());
            }
        }
        let already = already.max(HEAD_LEN);
        Ok(already + self.send(payload.skip(already - HEAD_LEN))?)
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.send(Self::nothing())?;
        Ok(self.gathered.is_empty())
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
    buffer: Box<[u8]>,
    assembler: Assembler,
}

/// What a read has brought.
struct Read {
    count: usize,
    // Nothing more is there: less came than there was room for.
    is_all: bool,
}

impl Receiver {
    /// Reads once.
    fn read(&mut self, inbox: &mut dyn Inbox) -> Result<Read> {
        let target = self.assembler.target();
        let rest =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        let both = [target.map_or(rest, |target| target.part()), rest];
        let parts = if target.is_some() { &both[..] } else { &both[1..] };
        // SAFETY: the target is vouched for by who made it; the buffer is this end's own.
        let count = match unsafe { receive_parts(self.stream.as_raw_fd(), parts) } {
            Err(error) if would_block(&error) => {
                return Ok(Read { count: 0, is_all: true });
            }
            Err(error) => return Err(Error::os("receiving from a peer")(error)),
            Ok(0) => return Err(ended()),
            Ok(count) => count,
        };
        let room: usize = parts.iter().map(|part| part.iov_len).sum();
        let placed = target.map_or(0, |target| target.len().min(count));
        if placed > 0 {
            self.assembler.placed(placed, inbox)?;
        }
        self.assembler.feed(&self.buffer[..count - placed], inbox)?;
        Ok(Read { count, is_all: count < room })
    }
}

impl Inlet for Receiver {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize> {
        let mut received = 0;
        while received < TURN_LEN {
            let Read { count, is_all } = self.read(inbox)?;
            received += count;
            if is_all {
                break;
            }
        }
        Ok(received)
    }
}

/// Whether a call had nothing to do yet.
pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The end of a stream.
pub(super) fn ended() -> Error {
    Error::os("receiving from a peer")(ErrorKind::UnexpectedEof.into())
}
