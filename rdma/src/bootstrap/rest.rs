//! Bytes from outside, read in order: no length among them is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::reason;
use crate::{Error, Result};

/// Bytes that have not been read yet.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.0.split_at_checked(len) else {
            let left = self.0.len();
            return Err(Error::protocol(format!("{left} bytes in the place of {len}")));
        };
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(*self.bytes(N)?.first_chunk().expect("as many bytes as were asked for"))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A text of at most 255 bytes, behind its length.
    pub(super) fn text(&mut self) -> Result<String> {
        let len = usize::from(self.u8()?);
        self.bytes(len).map(reason::printable)
    }

    pub(super) fn address(&mut self) -> Result<SocketAddr> {
        let address: IpAddr = match self.u8()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            family => return Err(Error::protocol(format!("an address of family {family}"))),
        };
        Ok(SocketAddr::new(address, self.u16()?))
    }

    pub(super) fn end(&self) -> Result {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Error::protocol(format!("{left} bytes too many"))),
        }
    }
}
