//! The proof of a link: both ends send what the other knows, at the same time, and check it.

use std::{
    fmt,
    ptr::NonNull,
    thread,
    time::{Duration, Instant},
};

use super::Cable;
use crate::{
    Error, NodeId, Result, Token,
    packet::{HEAD_LEN, Head, Kind, SHORT_MAX},
    stream::{Inbox, Place, Source},
};

/// Messages that each end sends.
const COUNT: u8 = 64;
/// What a peer has sent that sends another.
const MORE: &str = "more than what is to be proven";

/// How fast a link has proved to be, both ways together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    bytes: usize,
    time: Duration,
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.bytes as f64 / self.time.as_secs_f64().max(1e-9) / 1e6;
        write!(f, "{rate:.0} MB/s")
    }
}

/// Sends what is to be sent over `cable`, and checks what comes, until `deadline`.
pub(super) fn prove(
    cable: &mut Cable,
    node: NodeId,
    peer: NodeId,
    deadline: Instant,
) -> Result<Speed> {
    let start = Instant::now();
    let mut checker = Checker { peer, came: 0 };
    let (mut sent, mut taken) = (0, 0);
    let os = Error::os("proving a link");
    let mut push = |sent: u8, taken| {
        let message = message(node, sent);
        let len = u32::try_from(message.len()).expect("a message is short");
        let head = Head { len, ..Head::new(Kind::Message) };
        // SAFETY: the bytes are borrowed for the call, and only read.
        let source = unsafe { Source::new(NonNull::from(&message[..]).cast(), message.len()) };
        cable.outlet.push(&head.encode(), source, taken).and_then(|count| {
            cable.outlet.flush()?;
            Ok(count)
        })
    };
    let result = loop {
        if sent < COUNT {
            match push(sent, taken) {
                Ok(count) => taken = count,
                Err(error) => break Err(os(error)),
            }
            if taken == HEAD_LEN + SHORT_MAX {
                (sent, taken) = (sent + 1, 0);
            }
        }
        let received = cable.inlet.receive(&mut checker)?;
        if sent == COUNT && checker.came == COUNT && cable.inlet.is_quiet() {
            break Ok(());
        }
        if Instant::now() >= deadline {
            let waiting_for = format!("{} of {COUNT} messages of {peer}", COUNT - checker.came);
            break Err(Error::TimedOut { waiting_for, after: start.elapsed() });
        }
        if received == 0 {
            // The peer may need this core.
            thread::yield_now();
        }
    };
    result.map(|()| Speed { bytes: 2 * SHORT_MAX * usize::from(COUNT), time: start.elapsed() })
}

/// Answers what still comes over `cable`, until `is_over` or `deadline`: the other end may have
/// missed an answer.
pub(super) fn attend(cable: &mut Cable, deadline: Instant, mut is_over: impl FnMut() -> bool) {
    struct Deaf;
    impl Inbox for Deaf {
        fn open(&mut self, _head: &Head) -> Result<Place> {
            Ok(Place::Nowhere)
        }

        fn close(&mut self, _head: &Head, _payload: &[u8]) -> Result {
            Err(Error::protocol(MORE))
        }

        fn end(&mut self, _token: Token, _result: Result<u64>) {}
    }
    while !is_over() && Instant::now() < deadline && cable.inlet.receive(&mut Deaf).is_ok() {}
}

/// The message numbered `number` of `node`.
fn message(node: NodeId, number: u8) -> Vec<u8> {
    let seed = u32::from(node.number()) * 1009 + u32::from(number) * 31;
    let byte = |at: u32| seed.wrapping_add(at).wrapping_mul(2_654_435_761).to_le_bytes()[3];
    (0..u32::try_from(SHORT_MAX).expect("short")).map(byte).collect()
}

/// Who checks what comes.
struct Checker {
    peer: NodeId,
    came: u8,
}

impl Inbox for Checker {
    fn open(&mut self, _head: &Head) -> Result<Place> {
        Ok(Place::Whole)
    }

    fn close(&mut self, head: &Head, payload: &[u8]) -> Result {
        if self.came == COUNT {
            return Err(Error::protocol(MORE));
        }
        if head.kind != Kind::Message || payload != message(self.peer, self.came) {
            return Err(Error::protocol("what was sent is not what has come: the link is unsound"));
        }
        self.came += 1;
        Ok(())
    }

    fn end(&mut self, _token: Token, _result: Result<u64>) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn more_than_what_is_to_be_proven_is_refused() {
        let peer = NodeId::new(1);
        let mut checker = Checker { peer, came: 0 };
        let head = Head::new(Kind::Message);
        for number in 0..COUNT {
            checker.close(&head, &message(peer, number)).unwrap();
        }
        checker.close(&head, &message(peer, COUNT)).unwrap_err();
        assert_eq!(checker.came, COUNT);
    }
}
