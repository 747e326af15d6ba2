//! What is in the send queue, and to which operation it belongs.
//!
//! Requests of a queue end in their order, so that one that says it ended speaks for those before.

use std::{collections::VecDeque, ptr::NonNull};

use super::Failure;
use crate::{RemoteAddr, Token};

/// What is left to do when a request of the queue has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum After {
    /// Nothing: the bytes are where they belong.
    Nothing,
    /// The bytes that came are to be copied from the request's cell.
    Copy { target: NonNull<u8>, len: usize },
    /// The word that came is the operation's result.
    Word,
    /// The word that came is the result if it is `expected`; else the swap is tried again, with
    /// that word expected.
    Swap { target: RemoteAddr, value: u64, expected: u64 },
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The operation that it is part of, if it is one's.
    pub(super) operation: Option<usize>,
    pub(super) after: After,
}

/// The requests in the queue, numbered in their order.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    works: VecDeque<Work>,
    // The number of the first.
    first: u64,
}

impl WorkQueue {
    pub(super) fn len(&self) -> usize {
        self.works.len()
    }

    /// The number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.first + self.works.len() as u64
    }

    pub(super) fn push(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Takes the first request, with its number, if it is one up to `last`.
    pub(super) fn pop_until(&mut self, last: u64) -> Option<(u64, Work)> {
        if self.first > last {
            return None;
        }
        let work = self.works.pop_front()?;
        self.first += 1;
        Some((self.first - 1, work))
    }

    pub(super) fn clear(&mut self) {
        self.first = self.next();
        self.works.clear();
    }
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
struct Operation {
    token: Token,
    // Of its requests, those in the queue.
    in_queue: u32,
    // No request will follow.
    is_whole: bool,
    result: Result<u64, Failure>,
}

/// The operations that have not ended, by numbers that are used again.
#[derive(Debug, Default)]
pub(super) struct Operations {
    slots: Vec<Option<Operation>>,
    free: Vec<usize>,
}

/// An operation that has ended.
pub(super) type Finished = (Token, Result<u64, Failure>);

impl Operations {
    /// Begins an operation; returns its number.
    pub(super) fn begin(&mut self, token: Token) -> usize {
        let operation = Operation { token, in_queue: 0, is_whole: false, result: Ok(0) };
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[number] = Some(operation);
        number
    }

    /// Notes that a request of the operation is in the queue.
    pub(super) fn enqueue(&mut self, number: usize) {
        self.get(number).in_queue += 1;
    }

    /// Notes that a request of the operation has ended, with a word if it has one.
    pub(super) fn dequeue(&mut self, number: usize, word: Option<u64>) -> Option<Finished> {
        let operation = self.get(number);
        operation.in_queue -= 1;
        if let (Some(word), Ok(result)) = (word, &mut operation.result) {
            *result = word;
        }
        self.finish(number)
    }

    /// Notes that no more requests of the operation follow.
    pub(super) fn seal(&mut self, number: usize, failure: Option<Failure>) -> Option<Finished> {
        let operation = self.get(number);
        operation.is_whole = true;
        if let Some(failure) = failure {
            operation.result = Err(failure);
        }
        self.finish(number)
    }

    /// Notes that the operation needs one more request than was thought.
    pub(super) fn unseal(&mut self, number: usize) {
        self.get(number).is_whole = false;
    }

    /// Ends all of them.
    pub(super) fn drain(&mut self, failure: Failure) -> impl Iterator<Item = Finished> + use<> {
        self.free.clear();
        let ended = std::mem::take(&mut self.slots).into_iter().flatten();
        ended.map(move |operation| (operation.token, Err(failure)))
    }

    fn finish(&mut self, number: usize) -> Option<Finished> {
        let operation = self.get(number);
        if !operation.is_whole || operation.in_queue > 0 {
            return None;
        }
        let finished = (operation.token, operation.result);
        self.slots[number] = None;
        self.free.push(number);
        Some(finished)
    }

    fn get(&mut self, number: usize) -> &mut Operation {
        self.slots[number].as_mut().expect("an operation is known until it ends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ended_speaks_for_those_before() {
        let mut queue = WorkQueue::default();
        for operation in 0..5 {
            queue.push(Work { operation: Some(operation), after: After::Nothing });
        }
        let mut ended = Vec::new();
        while let Some((number, work)) = queue.pop_until(2) {
            ended.push((number, work.operation));
        }
        assert_eq!(ended, [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
        assert_eq!((queue.len(), queue.next()), (2, 5));
        queue.clear();
        assert_eq!((queue.len(), queue.next()), (0, 5), "numbers are not used again");
    }

    #[test]
    fn an_operation_ends_once_with_its_last_request() {
        let mut operations = Operations::default();
        let number = operations.begin(Token(9));
        operations.enqueue(number);
        operations.enqueue(number);
        assert!(operations.dequeue(number, None).is_none(), "another is in the queue");
        assert!(operations.seal(number, None).is_none());
        assert_eq!(operations.dequeue(number, Some(7)), Some((Token(9), Ok(7))));
        assert_eq!(operations.begin(Token(1)), number, "the number is free again");
        let ended: Vec<_> = operations.drain(Failure::Refused).collect();
        assert_eq!(ended, [(Token(1), Err(Failure::Refused))]);
        assert_eq!(operations.drain(Failure::Refused).count(), 0, "it has ended");
    }

    #[test]
    fn a_failure_outlasts_the_requests_that_still_end_well() {
        let mut operations = Operations::default();
        let number = operations.begin(Token(3));
        operations.enqueue(number);
        assert!(operations.seal(number, Some(Failure::UnknownRegion)).is_none());
        let finished = operations.dequeue(number, Some(5));
        assert_eq!(finished, Some((Token(3), Err(Failure::UnknownRegion))));
    }
}
