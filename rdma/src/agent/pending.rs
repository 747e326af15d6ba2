//! Requests that wait for their replies, by the number that a reply names.

use std::ptr::NonNull;

use crate::Token;

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    /// Bytes, in order, until the target is full.
    Bytes(Reading),
    /// A word that says that it is done.
    Done,
}

/// A read, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The region that is read.
    pub(super) key: u64,
    /// Where from.
    pub(super) offset: u64,
    /// Where to.
    pub(super) target: NonNull<[u8]>,
    /// Bytes that have come.
    pub(super) received: usize,
    /// A packet is coming that is written to the target.
    pub(super) is_arriving: bool,
}

impl Reading {
    /// Bytes that have not come.
    pub(super) fn left(&self) -> usize {
        self.target.len() - self.received
    }

    /// Where the next bytes go.
    pub(super) fn place(&self) -> NonNull<u8> {
        self.place_of(self.received)
    }

    fn place_of(&self, at: usize) -> NonNull<u8> {
        assert!(at <= self.target.len(), "no more is read than there is room for");
        // SAFETY: the place is inside the target (asserted), which is one allocation.
        unsafe { self.target.cast::<u8>().add(at) }
    }

    /// The same, in parts of `len` bytes; the last may be shorter.
    pub(super) fn parts(self, len: usize) -> impl Iterator<Item = Self> {
        (0..self.target.len()).step_by(len).map(move |start| {
            let len = len.min(self.target.len() - start);
            let target = NonNull::slice_from_raw_parts(self.place_of(start), len);
            Self { offset: self.offset + start as u64, target, received: 0, ..self }
        })
    }
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    pub(super) awaited: Awaited,
    /// The link over which the reply comes.
    pub(super) link: usize,
    /// Its place among the requests that have an order; zero for one that has none.
    pub(super) place: u64,
    /// The read of which it is a part.
    pub(super) whole: Option<u64>,
}

// SAFETY: the target is memory that the poster has given to the fabric until the request
// completes, whichever thread completes it.
unsafe impl Send for Waiting {}

/// The requests to one peer.
///
/// A number is a place in the table and how often it was used before, so that a late or invented
/// reply finds nothing.
#[derive(Debug, Default)]
pub(super) struct Pending {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    waiting: Option<Waiting>,
}

impl Pending {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes in a request; returns its number.
    pub(super) fn insert(&mut self, waiting: Waiting) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, waiting: None });
            u32::try_from(self.places.len() - 1).expect("requests are few")
        });
        let place = &mut self.places[index as usize];
        place.waiting = Some(waiting);
        u64::from(place.generation) << 32 | u64::from(index)
    }

    /// The request of that number, if it waits.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Waiting> {
        let (generation, index) = (number >> 32, number & u64::from(u32::MAX));
        let place = self.places.get_mut(usize::try_from(index).ok()?)?;
        place.waiting.as_mut().filter(|_| u64::from(place.generation) == generation)
    }

    /// Takes out the request of that number, if it waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<Waiting> {
        self.get_mut(number)?;
        let index = u32::try_from(number & u64::from(u32::MAX)).expect("32 bits");
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        place.waiting.take()
    }

    /// Takes out all that `is_meant`.
    pub(super) fn drain(&mut self, is_meant: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let numbers: Vec<u64> = (0..)
            .zip(&self.places)
            .filter(|(_, place)| place.waiting.as_ref().is_some_and(&is_meant))
            .map(|(index, place)| u64::from(place.generation) << 32 | index)
            .collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waiting(token: u64) -> Waiting {
        Waiting { token: Token(token), awaited: Awaited::Done, link: 0, place: 0, whole: None }
    }

    #[test]
    fn a_number_finds_its_request_once() {
        let mut pending = Pending::default();
        let (first, second) = (pending.insert(waiting(1)), pending.insert(waiting(2)));
        assert_eq!(pending.remove(first).unwrap().token, Token(1));
        assert!(pending.remove(first).is_none());
        let third = pending.insert(waiting(3));
        assert_ne!(third, first, "a place is used again under another number");
        assert!(pending.get_mut(first).is_none());
        assert_eq!(pending.len(), 2);
        assert_eq!(pending.drain(|_| true).len(), 2);
        assert!(pending.remove(second).is_none() && pending.remove(third).is_none());
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn invented_numbers_find_nothing() {
        let mut pending = Pending::default();
        pending.insert(waiting(1));
        for number in [1, 1 << 32, u64::MAX, 7 << 32 | 7] {
            assert!(pending.remove(number).is_none());
        }
    }
}
