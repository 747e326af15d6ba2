//! A lock that nobody waits for: who finds it taken does something else.
//!
//! Giving it back is a store. A lock that others may wait for has to look for them, which takes as
//! long again as to acquire it.
//!
//! # Memory ordering
//!
//! The Release with which a turn is given back pairs with the Acquire of the next
//! [`take`](Turn::take): what was done in a turn is visible in the next (`shm/loom.rs` checks it).

use std::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use crate::primitive::{AtomicU32, Ordering};

/// What one thread at a time works with.
pub(crate) struct Turn<T> {
    is_taken: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has the turn reaches the value, and all that it did happens before
// the next turn; so sharing a turn is no more than sending the value to and fro.
unsafe impl<T: Send> Sync for Turn<T> {}

impl<T> Turn<T> {
    /// A turn that is free.
    pub(crate) fn new(value: T) -> Self {
        Self { is_taken: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// The value, until the guard is dropped; `None` while somebody else has it.
    #[inline]
    pub(crate) fn take(&self) -> Option<Guard<'_, T>> {
        // Acquire: pairs with the Release in `drop`. Relaxed: whoever finds it taken sees nothing
        // of it.
        let taken = self.is_taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard { turn: self, _value: PhantomData })
    }
}

impl<T> Turn<T> {
    /// Whether somebody has it, as a hint.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Relaxed: `take` settles it.
        self.is_taken.load(Ordering::Relaxed) != 0
    }
}

impl<T> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("is_taken", &self.is_taken).finish_non_exhaustive()
    }
}

/// Having the turn.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    turn: &'a Turn<T>,
    // As shared between threads as the value: `&Turn` alone is whenever the value may be sent.
    _value: PhantomData<&'a mut T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `take` makes one guard at a time, and this one is borrowed.
        unsafe { &*self.turn.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: `take` makes one guard at a time, and this one is borrowed mutably.
        unsafe { &mut *self.turn.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `take`.
        self.turn.is_taken.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asked for its `ANSWER`: the trait's, unless the type's own applies.
    struct IsSync<T>(PhantomData<T>);

    impl<T: Sync> IsSync<T> {
        const ANSWER: bool = true;
    }

    trait IsNotSync {
        const ANSWER: bool = false;
    }

    impl<T> IsNotSync for IsSync<T> {}

    #[test]
    fn a_guard_is_shared_between_threads_only_if_its_value_may_be() {
        const { assert!(IsSync::<Guard<'_, u32>>::ANSWER) };
        const { assert!(!IsSync::<Guard<'_, Cell<u32>>>::ANSWER) };
        const { assert!(IsSync::<Turn<Cell<u32>>>::ANSWER) };
    }
}
