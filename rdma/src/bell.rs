//! A bell that is heard beside sockets: who blocks until one of many things happens cannot sleep on
//! a word of memory as well.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use crate::{Error, Result, descriptor};

/// The end that is listened to.
#[derive(Debug)]
pub(crate) struct Bell {
    socket: UnixStream,
}

/// The end that is pulled, by threads of this process and of others on this host.
#[derive(Debug)]
pub(crate) struct Rope {
    socket: UnixStream,
}

impl Bell {
    pub(crate) fn new() -> Result<(Self, Rope)> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::os("socketpair"))?;
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).map_err(Error::os("preparing a socket"))?;
        }
        descriptor::no_signal(&theirs);
        Ok((Self { socket: ours }, Rope { socket: theirs }))
    }

    /// Readable when the bell has been rung.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Makes it silent again.
    pub(crate) fn hush(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.socket).read(&mut bytes), Ok(count) if count > 0) {}
    }
}

impl Rope {
    /// The rope of a peer's bell.
    pub(crate) fn from_peer(descriptor: OwnedFd) -> Result<Self> {
        let socket = UnixStream::from(descriptor);
        descriptor::no_signal(&socket);
        // A peer that has made it blocking must not block this process.
        socket.set_nonblocking(true).map_err(Error::os("preparing a socket"))?;
        Ok(Self { socket })
    }

    /// Rings the bell.
    pub(crate) fn pull(&self) {
        // A socket that is full has been rung, and a bell that is gone wakes nobody.
        _ = (&self.socket).write(&[1]);
    }

    /// To pass to a peer.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
