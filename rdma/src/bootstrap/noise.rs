//! The handshake: both ends prove that they have the key of the cluster and belong to the job.
//!
//! ```text
//! caller      preamble
//! answerer    preamble, reason or none
//! caller      first message of Noise (48)
//! answerer    reason or none, second message of Noise (48)
//! ```
//!
//! Noise_NNpsk0: the key of the cluster is mixed in before anything else, and both preambles and
//! the job are part of what is agreed on, so that whoever changes them on their way breaks the
//! handshake. The answerer knows that the caller is no replay when its first record opens.

pub(crate) mod cipher;
pub(crate) mod preamble;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use snow::{Builder, HandshakeState};

use self::preamble::{Bytes, Preamble};
use super::{
    Job, Key,
    channel::Channel,
    reason,
    timed::{Timed, step},
};
use crate::{Error, Result, descriptor};

const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// Bytes of either message of Noise: a public key and a tag.
const MESSAGE_LEN: usize = 48;

const ANOTHER_KEY: &str = "the caller has another key";

/// What an end brings to a handshake.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) key: Key,
    pub(super) job: Job,
    pub(super) trust: Option<bool>,
}

/// Shakes hands with whoever answers at the other end of `stream`.
pub(super) fn call(stream: TcpStream, terms: &Terms, deadline: Instant) -> Result<Channel> {
    let ours = prepare(&stream, terms)?;
    let mut timed = Timed::new(&stream, deadline);
    let (theirs, refusal) = step("its answer", || {
        timed.write_all(&ours.encode())?;
        let mut theirs = [0; preamble::LEN];
        timed.read_exact(&mut theirs)?;
        Ok((theirs, reason::receive(&mut timed)?))
    })?;
    let decoded = Preamble::decode(&theirs)?;
    if let Some(reason) = refusal.or_else(|| ours.obstacle(&decoded)) {
        return Err(refused(&reason));
    }
    let mut noise = Noise::new(terms, [ours.encode(), theirs]).caller()?;
    let mut message = [0; MESSAGE_LEN];
    write(&mut noise, &mut message)?;
    let refusal = step("its half of the handshake", || {
        timed.write_all(&message)?;
        let refusal = reason::receive(&mut timed)?;
        if refusal.is_none() {
            timed.read_exact(&mut message)?;
        }
        Ok(refusal)
    })?;
    if let Some(reason) = refusal {
        return Err(refused(&reason));
    }
    if noise.read_message(&message, &mut []).is_err() {
        return Err(refused("the answerer has another key"));
    }
    finish(stream, noise, ours.is_plain() && decoded.is_plain())
}

/// Shakes hands with whoever calls at the other end of `stream`; says why it does not, if so.
pub(super) fn answer(stream: TcpStream, terms: &Terms, deadline: Instant) -> Result<Channel> {
    let ours = prepare(&stream, terms)?;
    let mut timed = Timed::new(&stream, deadline);
    let mut theirs = [0; preamble::LEN];
    step("its preamble", || timed.read_exact(&mut theirs))?;
    let decoded = Preamble::decode(&theirs)?;
    let obstacle = decoded.obstacle(&ours);
    let mut answer = ours.encode().to_vec();
    answer.extend(reason::encode(obstacle.as_deref()));
    step("it to hear the answer", || timed.write_all(&answer))?;
    if let Some(reason) = obstacle {
        return Err(refused(&reason));
    }
    let mut noise = Noise::new(terms, [theirs, ours.encode()]).answerer()?;
    let mut message = [0; MESSAGE_LEN];
    step("its half of the handshake", || timed.read_exact(&mut message))?;
    if noise.read_message(&message, &mut []).is_err() {
        // Who has gone need not be told.
        _ = timed.write_all(&reason::encode(Some(ANOTHER_KEY)));
        return Err(refused(ANOTHER_KEY));
    }
    write(&mut noise, &mut message)?;
    let mut answer = reason::encode(None);
    answer.extend(message);
    step("it to hear the answer", || timed.write_all(&answer))?;
    finish(stream, noise, ours.is_plain() && decoded.is_plain())
}

/// What this end of `stream` says.
fn prepare(stream: &TcpStream, terms: &Terms) -> Result<Preamble> {
    descriptor::no_signal(stream);
    let address = stream.peer_addr().map_err(Error::os("getpeername"))?;
    let is_here = address.ip().to_canonical().is_loopback();
    let is_plain = terms.trust.unwrap_or(is_here);
    Ok(Preamble::new(terms, is_plain))
}

fn finish(stream: TcpStream, noise: HandshakeState, is_plain: bool) -> Result<Channel> {
    let state = noise.into_stateless_transport_mode().map_err(broken)?;
    Channel::new(stream, cipher::split(state), is_plain)
}

/// Both sides of Noise, before it is known which is this.
struct Noise<'a> {
    terms: &'a Terms,
    prologue: Vec<u8>,
}

impl<'a> Noise<'a> {
    fn new(terms: &'a Terms, preambles: [Bytes; 2]) -> Self {
        let prologue = [terms.job.as_bytes(), preambles.as_flattened()].concat();
        Self { terms, prologue }
    }

    fn builder(&self) -> Result<Builder<'_>> {
        let builder = Builder::new(NOISE.parse().map_err(broken)?);
        let builder = builder.psk(0, self.terms.key.as_bytes()).map_err(broken)?;
        builder.prologue(&self.prologue).map_err(broken)
    }

    fn caller(&self) -> Result<HandshakeState> {
        self.builder()?.build_initiator().map_err(broken)
    }

    fn answerer(&self) -> Result<HandshakeState> {
        self.builder()?.build_responder().map_err(broken)
    }
}

fn write(noise: &mut HandshakeState, message: &mut [u8; MESSAGE_LEN]) -> Result {
    let len = noise.write_message(&[], message).map_err(broken)?;
    assert_eq!(len, MESSAGE_LEN, "a message of this handshake is a public key and a tag");
    Ok(())
}

fn refused(reason: &str) -> Error {
    Error::JoinFailed { reason: reason.to_owned() }
}

/// This end could not do its part: it has no random numbers, say.
fn broken(error: snow::Error) -> Error {
    Error::JoinFailed { reason: format!("Noise: {error}") }
}

#[cfg(all(test, not(loom)))]
mod tests;
