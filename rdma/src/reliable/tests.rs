//! Ends of a connection that breaks.

use super::*;
use crate::{
    Region, RemoteAddr,
    packet::{Head, Kind},
    stream::Place,
};

const PEER: NodeId = NodeId::new(1);

/// Carries nothing, and has the message come that it was given.
#[derive(Debug, Default)]
struct Dumb {
    under_way: Vec<Token>,
    message: Vec<u8>,
    is_broken: bool,
}

impl Wire for Dumb {
    unsafe fn post(&mut self, batch: &[Request]) -> usize {
        self.under_way.extend(batch.iter().map(|request| request.token));
        batch.len()
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.message.is_empty() {
            sink(Event::Message(&std::mem::take(&mut self.message)));
        }
        if let Some(status) = self.lost() {
            let result = Err(Failure::Lost(status));
            self.under_way.drain(..).for_each(|token| sink(Event::Done { token, result }));
        }
    }

    fn lost(&self) -> Option<Status> {
        self.is_broken.then_some(Status::FLUSHED)
    }

    fn abandon(&mut self) {
        self.is_broken = true;
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Keeper {
    packets: usize,
    ended: Vec<(Token, Result<u64>)>,
}

impl Inbox for Keeper {
    fn open(&mut self, _: &Head) -> Result<Place> {
        Ok(Place::Whole)
    }

    fn close(&mut self, _: &Head, _: &[u8]) -> Result {
        self.packets += 1;
        Ok(())
    }

    fn end(&mut self, token: Token, result: Result<u64>) {
        self.ended.push((token, result));
    }
}

/// Starts a read of no byte.
fn read(native: &Native<Dumb>, token: Token) -> Option<bool> {
    let source = RemoteAddr { node: PEER, region: Region(1), offset: 0 };
    let target = NonNull::from(&mut [][..]);
    // SAFETY: no memory is named.
    unsafe { native.post(&Request { token, op: Op::Read { source, target } }) }
}

#[test]
fn what_is_posted_to_a_broken_connection_is_the_agents() {
    let (_outlet, mut inlet, native) = ends(Dumb::default(), PEER);
    assert_eq!(read(&native, Token(1)), Some(true));
    let mut keeper = Keeper::default();
    inlet.close(&mut keeper);
    let [(Token(1), Err(Error::PeerLost { node: PEER, .. }))] = &keeper.ended[..] else {
        panic!("it ends with the connection: {:?}", keeper.ended)
    };
    // Nobody will poll for it.
    drop(inlet);
    assert_eq!(read(&native, Token(2)), None);
}

#[test]
fn a_connection_that_is_closed_takes_in_nothing_more() {
    let message = Head::new(Kind::Beat).encode().to_vec();
    let (_outlet, mut inlet, native) = ends(Dumb { message, ..Dumb::default() }, PEER);
    assert_eq!(read(&native, Token(1)), Some(true));
    let mut keeper = Keeper::default();
    inlet.close(&mut keeper);
    assert_eq!((keeper.packets, keeper.ended.len()), (0, 1));
}
