//! When: a point in time that the caller tells.

use std::time::Duration;

/// Nanoseconds since an instant that the caller has chosen; the same one for all that it tells.
///
/// What is told the time can be tested without waiting.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The beginning: before every other.
    pub const START: Self = Self(0);

    /// This much later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// How much later than `earlier` this is; nothing, if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The nanoseconds of a duration; more than 584 years count as so many.
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}
