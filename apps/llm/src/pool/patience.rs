//! How long to spin, and when to give way.

/// One wait: first spinning, then giving the core to whoever wants it, for a limited time.
#[derive(Debug)]
pub(super) struct Patience {
    #[cfg(not(loom))]
    spins: u32,
    #[cfg(not(loom))]
    yielding_since: Option<std::time::Instant>,
}

#[cfg(not(loom))]
impl Patience {
    /// Spins before the first yield: about a microsecond.
    const SPINS: u32 = 40;
    /// How long a wait without parking may be worth it: about what parking and waking cost.
    const LIMIT: std::time::Duration = std::time::Duration::from_micros(50);

    pub(super) fn new() -> Self {
        Self { spins: 0, yielding_since: None }
    }

    /// Waits a little. False: it has been long enough to sleep, or someone else needs the core.
    pub(super) fn wait(&mut self) -> bool {
        self.spins += 1;
        if !self.spins.is_multiple_of(Self::SPINS) {
            std::hint::spin_loop();
            return true;
        }
        let now = std::time::Instant::now();
        let since = *self.yielding_since.get_or_insert(now);
        // A yield that comes back late has let another thread run: that limit is then reached.
        crate::primitive::yield_now();
        now.duration_since(since) < Self::LIMIT
    }
}

/// Under loom a wait is one yield, and patience ends at once, so that sleeping is explored too.
#[cfg(loom)]
impl Patience {
    pub(super) fn new() -> Self {
        Self {}
    }

    pub(super) fn wait(&mut self) -> bool {
        crate::primitive::yield_now();
        false
    }
}
