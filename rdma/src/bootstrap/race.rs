//! Connecting to somebody who has several addresses, some of which may not answer.
//!
//! They are called side by side, each a moment after the one before it, or as soon as that has
//! failed (RFC 8305): one that is silent delays no other.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    net::{self, SocketAddr},
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::{Error, Result};

/// The head start of an address over the next one.
const STAGGER: Duration = Duration::from_millis(250);
/// How long an address that is to be called again is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it is asked whether there is still somebody who wants a connection.
const TICK: Duration = Duration::from_millis(20);

/// Calls to the addresses of one process.
#[derive(Debug)]
pub(super) struct Race {
    // The nearest first.
    uncalled: VecDeque<SocketAddr>,
    // When the next of them is called.
    next_start: Instant,
    // What was called, and when it is called again.
    resting: VecDeque<(Instant, SocketAddr)>,
    calls: Vec<Call>,
    // How long an address may take to answer.
    patience: Duration,
    poll: Poll,
    events: Events,
}

/// How the call of an address has ended.
pub(super) type Outcome = (SocketAddr, io::Result<net::TcpStream>);

/// A call that is under way.
#[derive(Debug)]
struct Call {
    address: SocketAddr,
    stream: TcpStream,
    deadline: Instant,
}

impl Race {
    /// Of `addresses`, the nearest first, each of which has `patience` to answer.
    pub(super) fn new(addresses: Vec<SocketAddr>, patience: Duration) -> Result<Self> {
        Ok(Self {
            uncalled: addresses.into(),
            next_start: Instant::now(),
            resting: VecDeque::new(),
            calls: Vec::new(),
            patience,
            poll: Poll::new().map_err(Error::os("epoll_create"))?,
            events: Events::with_capacity(8),
        })
    }

    /// The next call that has ended, and how; `None` where there is none left, where `deadline` has
    /// passed, and where `is_over` says that no connection is wanted any more.
    pub(super) fn next(
        &mut self,
        deadline: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Outcome> {
        loop {
            let now = Instant::now();
            let is_empty =
                self.uncalled.is_empty() && self.resting.is_empty() && self.calls.is_empty();
            if is_empty || now >= deadline || is_over() {
                return None;
            }
            let ended = match self.take_due(now) {
                Some(address) => self.start(address, now),
                None => self.take_ended(now),
            };
            if ended.is_some() {
                // The next one need not wait for this any more.
                self.next_start = now;
                return ended;
            }
            // An error is a signal that came between: all is looked at again.
            _ = self.poll.poll(&mut self.events, Some(TICK));
        }
    }

    /// Calls `address` again, a moment later.
    pub(super) fn again(&mut self, address: SocketAddr) {
        self.resting.push_back((Instant::now() + PAUSE, address));
    }

    /// An address that is to be called now.
    fn take_due(&mut self, now: Instant) -> Option<SocketAddr> {
        if let Some((_, address)) = self.resting.pop_front_if(|(at, _)| *at <= now) {
            return Some(address);
        }
        if now < self.next_start {
            return None;
        }
        self.next_start = now + STAGGER;
        self.uncalled.pop_front()
    }

    /// Calls `address`; returns how that has ended, where it has at once.
    fn start(&mut self, address: SocketAddr, now: Instant) -> Option<Outcome> {
        let stream = TcpStream::connect(address).and_then(|mut stream| {
            self.poll.registry().register(&mut stream, Token(0), Interest::WRITABLE)?;
            Ok(stream)
        });
        match stream {
            Ok(stream) => {
                self.calls.push(Call { address, stream, deadline: now + self.patience });
                None
            }
            Err(error) => Some((address, Err(error))),
        }
    }

    fn take_ended(&mut self, now: Instant) -> Option<Outcome> {
        let ends = |call: &Call| call.outcome().or_else(|| call.silence(now, self.patience));
        let (index, outcome) =
            self.calls.iter().enumerate().find_map(|(index, call)| Some((index, ends(call)?)))?;
        let Call { address, stream, .. } = self.calls.swap_remove(index);
        let connected = outcome.and_then(|()| {
            // Blocking, as everything that follows has a deadline of its own.
            let stream = net::TcpStream::from(stream);
            stream.set_nonblocking(false).map(|()| stream)
        });
        Some((address, connected))
    }
}

impl Call {
    /// Whether somebody has answered, and how.
    fn outcome(&self) -> Option<io::Result<()>> {
        match self.stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Some(Err(error)),
        }
        match self.stream.peer_addr() {
            // Where nobody listens at a port that the system hands out, a caller may get itself.
            Ok(peer) if self.stream.local_addr().is_ok_and(|own| own == peer) => {
                Some(Err(ErrorKind::ConnectionRefused.into()))
            }
            Ok(_) => Some(Ok(())),
            Err(error) if error.kind() == ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn silence(&self, now: Instant, patience: Duration) -> Option<io::Result<()>> {
        let silence =
            || io::Error::new(ErrorKind::TimedOut, format!("no answer within {patience:?}"));
        (now >= self.deadline).then(|| Err(silence()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        net::{Ipv4Addr, TcpListener},
        os::fd::AsRawFd,
    };

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Where nobody listens.
    fn deserted() -> SocketAddr {
        listener().1
    }

    #[test]
    fn every_address_has_its_outcome() {
        let (_one, first) = listener();
        let (_two, second) = listener();
        let addresses = [deserted(), first, deserted(), second];
        let mut race = Race::new(addresses.into(), Duration::from_secs(20)).unwrap();
        let mut outcomes = Vec::new();
        while let Some((address, called)) = race.next(soon(), &|| false) {
            assert!(
                called.as_ref().is_ok_and(|stream| stream.peer_addr().unwrap() == address)
                    || called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            );
            outcomes.push(address);
        }
        outcomes.sort_unstable();
        let mut addresses = addresses;
        addresses.sort_unstable();
        assert_eq!(outcomes, addresses);
    }

    /// Where nobody answers: a queue of callers has room for one, who has come.
    fn silent() -> (TcpListener, net::TcpStream, SocketAddr) {
        let (listener, address) = listener();
        // SAFETY: a call on a socket that is open and listens; no memory is named.
        let rc = unsafe { libc::listen(listener.as_raw_fd(), 0) };
        assert_eq!(rc, 0);
        (listener, net::TcpStream::connect(address).unwrap(), address)
    }

    #[test]
    fn one_that_is_silent_delays_no_other() {
        let (_full, _caller, silent) = silent();
        let (_listener, address) = listener();
        let for_ever = Duration::from_secs(3600);
        let mut race = Race::new(vec![silent, deserted(), address], for_ever).unwrap();
        let mut outcomes = std::iter::from_fn(|| race.next(soon(), &|| false));
        let (_, called) = outcomes.find(|(called, _)| *called == address).expect("it answers");
        called.unwrap();
    }

    #[test]
    fn an_address_that_stays_silent_is_given_up() {
        let (_full, _caller, silent) = silent();
        let mut race = Race::new(vec![silent], Duration::from_millis(1)).unwrap();
        let (address, called) = race.next(soon(), &|| false).unwrap();
        assert_eq!(address, silent);
        if let Err(error) = called {
            assert!(error.to_string().contains("no answer within 1ms"), "{error}");
        }
        assert!(race.next(soon(), &|| false).is_none());
    }

    #[test]
    fn an_address_can_be_called_until_somebody_is_there() {
        let address = deserted();
        let mut race = Race::new(vec![address], Duration::from_secs(20)).unwrap();
        let mut listener = None;
        for _ in 0..3 {
            let (_, called) = race.next(soon(), &|| false).unwrap();
            called.unwrap_err();
            race.again(address);
        }
        listener.replace(TcpListener::bind(address).unwrap());
        let (_, called) = race.next(soon(), &|| false).unwrap();
        called.unwrap();
        assert!(race.next(soon(), &|| false).is_none());
    }

    #[test]
    fn a_race_ends_with_its_time_and_with_its_purpose() {
        let mut race = Race::new(vec![deserted()], Duration::from_secs(20)).unwrap();
        assert!(race.next(Instant::now(), &|| false).is_none());
        assert!(race.next(soon(), &|| true).is_none());
        assert!(race.next(soon(), &|| false).is_some());
    }
}
