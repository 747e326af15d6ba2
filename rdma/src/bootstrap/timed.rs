//! A socket that is given up when its time has come, however its other end drips.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// A stream to read and write until a deadline.
#[derive(Debug)]
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    pub(super) fn new(stream: &'a TcpStream, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a step of a conversation, which waits for `waiting_for`.
pub(super) fn step<T>(waiting_for: &str, step: impl FnOnce() -> io::Result<T>) -> Result<T> {
    let start = Instant::now();
    step().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::TimedOut { waiting_for: waiting_for.to_owned(), after: start.elapsed() }
        }
        ErrorKind::InvalidData => Error::protocol(error.to_string()),
        _ => Error::os("hearing the other end")(error),
    })
}

/// What went wrong, and why, in one line.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::Os { source, .. } => format!("{error}: {source}"),
        Error::JoinFailed { reason } => reason.clone(),
        _ => error.to_string(),
    }
}
