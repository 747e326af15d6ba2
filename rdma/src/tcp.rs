//! TCP: the wire that always works.

mod plain;
mod sealed;

use std::{io, sync::Arc};

use mio::{Interest, Registry, Token, net::TcpStream};

use crate::{
    bootstrap::Connection,
    stream::{Inlet, Outlet},
};

/// The two ends of a link over `connection`. The system tells, under `name`, when there is
/// something to read, or room again.
pub(crate) fn ends(
    connection: Connection,
    registry: &Registry,
    name: Token,
) -> io::Result<(Box<dyn Outlet>, Box<dyn Inlet>)> {
    let Connection { stream, cipher, .. } = connection;
    stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(stream);
    registry.register(&mut stream, name, Interest::READABLE | Interest::WRITABLE)?;
    let stream = Arc::new(stream);
    Ok(match cipher {
        None => plain::ends(stream),
        Some((sealer, opener)) => sealed::ends(stream, sealer, opener),
    })
}
