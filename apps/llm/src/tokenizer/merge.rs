//! Merging neighbours until no rule applies: the step that BPE and SentencePiece share.
//!
//! The best pair of the whole sequence goes first, the leftmost of equals. A queue holds the pairs,
//! so a sequence of n symbols takes O(n log n) however it merges.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    mem,
};

/// A stretch of the text with the token that spells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) id: u32,
    pub(super) start: usize,
    pub(super) end: usize,
    previous: usize,
    next: usize,
}

/// What two neighbours become, and how soon: small priorities first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) priority: u32,
    pub(super) id: u32,
}

/// A sequence of symbols; its memory is used again for the next sequence.
#[derive(Debug, Default)]
pub(super) struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

/// Two neighbours in the queue. It is stale once either has merged with another: then the two no
/// longer cover `length`, since symbols only grow, and an absorbed one covers nothing.
#[derive(Debug)]
struct Pair {
    merge: Merge,
    left: usize,
    right: usize,
    length: usize,
}

/// The index of no symbol.
const NONE: usize = usize::MAX;

impl Merger {
    /// Appends a symbol that covers the next `length` bytes of the text.
    pub(super) fn push(&mut self, id: u32, length: usize) {
        let index = self.symbols.len();
        let (previous, start) = match self.symbols.last_mut() {
            Some(last) => {
                last.next = index;
                (index - 1, last.end)
            }
            None => (NONE, 0),
        };
        self.symbols.push(Symbol { id, start, end: start + length, previous, next: NONE });
    }

    /// Merges what `rule` allows, hands over the symbols that remain, and is empty again.
    pub(super) fn merge(
        &mut self,
        rule: impl Fn(&Symbol, &Symbol) -> Option<Merge>,
        mut remaining: impl FnMut(&Symbol),
    ) {
        // All at once, so that the queue is built in linear time.
        let mut pairs = mem::take(&mut self.queue).into_vec();
        pairs
            .extend((1..self.symbols.len()).filter_map(|right| self.pair(&rule, right - 1, right)));
        self.queue = pairs.into();

        while let Some(Reverse(pair)) = self.queue.pop() {
            if self.is_stale(&pair) {
                continue;
            }
            self.join(&pair);
            let Symbol { previous, next, .. } = self.symbols[pair.left];
            if previous != NONE {
                self.queue.extend(self.pair(&rule, previous, pair.left));
            }
            if next != NONE {
                self.queue.extend(self.pair(&rule, pair.left, next));
            }
        }

        self.symbols.iter().filter(|symbol| symbol.length() > 0).for_each(&mut remaining);
        self.symbols.clear();
    }

    fn pair(
        &self,
        rule: impl Fn(&Symbol, &Symbol) -> Option<Merge>,
        left: usize,
        right: usize,
    ) -> Option<Reverse<Pair>> {
        let (first, second) = (&self.symbols[left], &self.symbols[right]);
        let merge = rule(first, second)?;
        Some(Reverse(Pair { merge, left, right, length: first.length() + second.length() }))
    }

    fn is_stale(&self, pair: &Pair) -> bool {
        let (left, right) = (&self.symbols[pair.left], &self.symbols[pair.right]);
        left.length() == 0 || right.length() == 0 || left.length() + right.length() != pair.length
    }

    /// Lets the left symbol absorb the right one.
    fn join(&mut self, pair: &Pair) {
        let Symbol { end, next, .. } = self.symbols[pair.right];
        let right = &mut self.symbols[pair.right];
        right.start = right.end;
        let left = &mut self.symbols[pair.left];
        left.id = pair.merge.id;
        left.end = end;
        left.next = next;
        if next != NONE {
            self.symbols[next].previous = pair.left;
        }
    }
}

impl Symbol {
    fn length(&self) -> usize {
        self.end - self.start
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.merge.priority, self.left).cmp(&(other.merge.priority, other.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What becomes of `ids`, each of one byte, found by trying every pair again and again.
    fn merged_slowly(mut ids: Vec<u32>, rule: impl Fn(u32, u32) -> Option<Merge>) -> Vec<u32> {
        loop {
            let pairs = ids.windows(2).enumerate();
            let best = pairs
                .filter_map(|(at, pair)| Some((rule(pair[0], pair[1])?, at)))
                .min_by_key(|(merge, at)| (merge.priority, *at));
            let Some((merge, at)) = best else { return ids };
            ids.splice(at..at + 2, [merge.id]);
        }
    }

    proptest! {
        #[test]
        fn the_best_pair_goes_first_and_the_leftmost_of_equals(
            ids in prop::collection::vec(0u32..4, 0..60),
            rules in prop::collection::hash_map((0u32..8, 0u32..8), (0u32..6, 4u32..8), 0..40),
        ) {
            let rule = |left, right| {
                let &(priority, id) = rules.get(&(left, right))?;
                Some(Merge { priority, id })
            };
            let mut merger = Merger::default();
            for _ in 0..2 {
                ids.iter().for_each(|&id| merger.push(id, 1));
                let mut merged = Vec::new();
                merger.merge(|a, b| rule(a.id, b.id), |symbol| merged.push(symbol.id));
                prop_assert_eq!(&merged, &merged_slowly(ids.clone(), rule));
            }
        }
    }
}
