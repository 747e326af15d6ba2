//! What an agent does with the packets of a peer.

use std::sync::{Arc, MutexGuard};

use super::{Agent, Announced, Awaited, Parcel, Payload, Peer, Waiting, refusal};
use crate::{
    Completion, Error, MESSAGES_MAX, Mapping, NodeId, Result, Token,
    packet::{Head, Kind, word},
    primitive::Ordering,
    roster::Departure,
    stream::{Inbox, Place, Target},
};

/// Bytes of a word: a write of no more is done at once.
const WORD_LEN: u32 = 8;

/// What one peer has to say, while it is received.
pub(crate) struct Correspondence<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) source: NodeId,
    /// The peer's link by which it comes, counted from the main one.
    pub(crate) link: usize,
    /// Gets what is for this node's program.
    pub(crate) sink: &'a mut dyn FnMut(Completion<'_>),
    /// What the sink was given.
    pub(crate) count: usize,
    /// Something has come for which somebody may wait: a word was written, a region announced, a
    /// node lost.
    pub(crate) has_signalled: bool,
    /// The peer has given credit.
    pub(crate) has_room: bool,
    /// The peer has said goodbye.
    pub(crate) has_left: bool,
}

impl<'a> Correspondence<'a> {
    pub(crate) fn new(
        agent: &'a Agent,
        source: NodeId,
        link: usize,
        sink: &'a mut dyn FnMut(Completion<'_>),
    ) -> Self {
        let (count, has_signalled, has_room, has_left) = Default::default();
        Self { agent, source, link, sink, count, has_signalled, has_room, has_left }
    }

    fn breach(&self, what: &str) -> Error {
        Error::protocol(format!("{} {what}", self.source))
    }

    fn done(&mut self, token: Token, result: Result<u64>) {
        self.count += 1;
        (self.sink)(Completion::Done { token, result });
    }

    /// A region of this node, if the peer knows its key.
    fn own(&self, head: &Head) -> Result<Arc<Mapping>> {
        let unknown = Error::UnknownRegion { node: self.agent.roster.node(), region: u32::MAX };
        self.agent.keys.own(head.key).ok_or(unknown)
    }

    /// Where the next bytes of a read go.
    fn place_of_bytes(&self, head: &Head) -> Result<Place> {
        let mut peer = self.agent.peer(self.source);
        let reading = peer.as_mut().and_then(|peer| peer.reading(self.link, head.request));
        let Some(reading) = reading else {
            return Err(self.breach("sent bytes that nobody has asked for"));
        };
        if reading.is_arriving {
            return Err(self.breach("sent bytes of a read within others of it"));
        }
        let (len, left) = (head.payload_len(), reading.left());
        let is_next = head.offset == reading.received as u64 && len <= left;
        if !is_next || head.is_last != (len == left) {
            return Err(self.breach("sent other bytes than those that were asked for"));
        }
        reading.is_arriving = true;
        // SAFETY: the target is the fabric's until the request completes. Nothing that the peer
        // says, over whatever link, completes it while this packet is arriving; where the link or
        // the peer is given up, what comes over it is not taken in any more. The place has room
        // (checked).
        Ok(Place::Memory(unsafe { Target::new(reading.place(), len) }))
    }

    /// Where the bytes of a write go; nowhere if it is to be refused.
    fn place_of_write(&self, head: &Head) -> Place {
        if head.len <= WORD_LEN {
            return Place::Whole;
        }
        let memory = self.own(head);
        let place = memory.and_then(|memory| memory.range(head.offset, u64::from(head.len)));
        let Ok(start) = place else { return Place::Nowhere };
        // SAFETY: the place is that many bytes of a region (checked), which stays mapped while the
        // agent lives, and which peers may write at any time.
        Place::Memory(unsafe { Target::new(start, head.payload_len()) })
    }

    fn take_bytes(&mut self, head: &Head) -> Result {
        let Some(mut peer) = self.agent.peer(self.source) else { return Ok(()) };
        peer.receive(head.request, head.payload_len());
        let ended = if head.is_last { peer.end(head.request, Ok(0)) } else { None };
        drop(peer);
        if let Some((token, result)) = ended {
            self.done(token, result);
        }
        Ok(())
    }

    /// The request that `head` answers, if it was made over this link.
    fn waiting(&self, head: &Head) -> Option<Waiting> {
        self.agent.peer(self.source)?.waiting(self.link, head.request)
    }

    /// Ends the request that `head` answers, which waits for no bytes.
    fn take_answer(&mut self, head: &Head, result: Result<u64>) -> Result {
        let is_sending = |peer: MutexGuard<'_, Peer>| peer.is_sending(self.link, head.request);
        match self.waiting(head).map(|Waiting { awaited, .. }| awaited) {
            Some(Awaited::Done) if self.agent.peer(self.source).is_some_and(is_sending) => {
                return Err(self.breach("answered a write before it was sent"));
            }
            Some(Awaited::Done) => {}
            Some(Awaited::Bytes(reading)) if head.kind == Kind::Refused => {
                if reading.is_arriving {
                    return Err(self.breach("refused a read within its bytes"));
                }
            }
            _ => return Err(self.breach("answered what nobody has asked")),
        }
        let peer = self.agent.peer(self.source);
        if let Some((token, result)) = peer.and_then(|mut peer| peer.end(head.request, result)) {
            self.done(token, result);
        }
        Ok(())
    }

    fn reply(&self, head: Head, payload: Payload) -> Result {
        let Some(mut peer) = self.agent.peer(self.source) else { return Ok(()) };
        if peer.reply(self.link, Parcel::new(head, payload, None)) {
            return Ok(());
        }
        Err(self.breach("asks faster than it reads the answers"))
    }

    fn answer(&self, head: &Head, result: Result<u64>) -> Result {
        match result {
            Ok(before) => {
                let head = Head { request: head.request, offset: before, ..Head::new(Kind::Done) };
                self.reply(head, Payload::words([]))
            }
            Err(error) => {
                let head = Head { request: head.request, ..Head::new(Kind::Refused) };
                self.reply(head, Payload::words(refusal::encode(&error)))
            }
        }
    }

    fn serve_read(&self, head: &Head, len: u64) -> Result {
        let found = self.own(head).and_then(|memory| {
            memory.range(head.offset, len)?;
            Ok(memory)
        });
        match found {
            Ok(memory) => {
                let payload = Payload::Mapped(memory, head.offset, len);
                self.reply(Head { request: head.request, ..Head::new(Kind::Bytes) }, payload)
            }
            Err(error) => self.answer(head, Err(error)),
        }
    }

    fn serve_atomic(&self, head: &Head, payload: &[u8]) -> Result {
        let result = self.own(head).and_then(|memory| {
            let target = memory.word(head.offset)?;
            let operand = word(payload, 0);
            // SeqCst, all three: one order for all atomics of a word, and for those of several.
            let order = Ordering::SeqCst;
            Ok(match head.kind {
                Kind::FetchAdd => target.fetch_add(operand, order),
                Kind::Swap => target.swap(operand, order),
                _ => {
                    let swapped = target.compare_exchange(operand, word(payload, 1), order, order);
                    swapped.unwrap_or_else(|now| now)
                }
            })
        });
        self.answer(head, result)
    }

    fn serve_write(&self, head: &Head, payload: &[u8]) -> Result {
        let written = self.own(head).and_then(|memory| {
            memory.range(head.offset, u64::from(head.len))?;
            write_word(&memory, head.offset, payload)
        });
        if head.is_last { self.answer(head, written.map(|()| 0)) } else { Ok(()) }
    }

    fn take_message(&mut self, message: &[u8]) -> Result {
        if !self.agent.take_in(self.source) {
            let what = "sends messages without credit: this node keeps";
            let what = format!("{what} {MESSAGES_MAX} that its program has not polled, no more");
            return Err(self.breach(&what));
        }
        self.count += 1;
        (self.sink)(Completion::Message { source: self.source, message });
        Ok(())
    }

    fn take_credit(&mut self, count: u64) -> Result {
        let Some(mut peer) = self.agent.peer(self.source) else { return Ok(()) };
        if self.agent.count_room(&mut peer, |peer| peer.credits.receive(count)) {
            self.has_room = true;
            return Ok(());
        }
        Err(self.breach(&format!("gives credit for {count} messages, more than it was sent")))
    }

    fn take_signal(&mut self, head: &Head, value: u64) {
        // One that names no word is its sender's mistake, and changes nothing.
        let Ok(memory) = self.own(head) else { return };
        if let Ok(target) = memory.word(head.offset) {
            // Release: pairs with the Acquire of who waits; what came before is visible to it.
            target.store(value, Ordering::Release);
            self.has_signalled = true;
        }
    }

    fn take_loss(&mut self, number: u64) -> Result {
        let node = u16::try_from(number).ok().map(NodeId::new);
        // Nor can it have lost itself.
        let node =
            node.filter(|&node| node.number() < self.agent.roster.nodes() && node != self.source);
        let node = node.ok_or_else(|| self.breach("lost a node that there is not"))?;
        self.has_signalled |= self.agent.lose(node, Departure::Died);
        Ok(())
    }
}

impl Inbox for Correspondence<'_> {
    fn end(&mut self, token: Token, result: Result<u64>) {
        self.done(
            token,
            match result {
                Err(Error::PeerLost { node, .. }) => Err(self.agent.roster.lost(node)),
                other => other,
            },
        );
    }

    fn open(&mut self, head: &Head) -> Result<Place> {
        match head.kind {
            Kind::Bytes => self.place_of_bytes(head),
            Kind::Write => Ok(self.place_of_write(head)),
            _ => Ok(Place::Whole),
        }
    }

    fn close(&mut self, head: &Head, payload: &[u8]) -> Result {
        match head.kind {
            Kind::Message => self.take_message(payload)?,
            Kind::Read => self.serve_read(head, word(payload, 0))?,
            Kind::Bytes => self.take_bytes(head)?,
            Kind::Write => self.serve_write(head, payload)?,
            Kind::FetchAdd | Kind::Swap | Kind::CompareSwap => self.serve_atomic(head, payload)?,
            Kind::Done => self.take_answer(head, Ok(head.offset))?,
            Kind::Refused => {
                self.take_answer(head, Err(refusal::decode(self.source, payload)))?;
            }
            Kind::Signal => self.take_signal(head, word(payload, 0)),
            Kind::Region => {
                let announced = Announced { key: head.key, len: word(payload, 0) };
                self.agent.keys.announce(self.source, head.offset, announced)?;
                self.has_signalled = true;
            }
            Kind::Lost => self.take_loss(head.offset)?,
            Kind::Goodbye => {
                if let Some(died) = head.offset.checked_sub(1) {
                    self.take_loss(died)?;
                }
                self.has_left = true;
            }
            Kind::Beat => {}
            Kind::Credit => self.take_credit(head.offset)?,
        }
        Ok(())
    }
}

/// Writes what came whole, a word or less of it, by one access: nobody sees a part of it.
fn write_word(memory: &Mapping, offset: u64, payload: &[u8]) -> Result {
    match payload.try_into() {
        Ok(bytes) if offset.is_multiple_of(u64::from(WORD_LEN)) => {
            // Relaxed: writes are not ordered by the words that they write.
            memory.word(offset)?.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            Ok(())
        }
        _ => memory.write(offset, payload),
    }
}
