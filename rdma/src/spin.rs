//! Whether it pays to look for a while before blocking.
//!
//! It does where the peer that is waited for runs at the same time. Where it needs this very core,
//! it cannot answer before this thread blocks, and the system puts two threads that wake each other
//! on one core readily: each would look in vain, by turns. Nobody tells where a peer runs, so that
//! only what looking has brought says whether to look.

use std::time::Duration;

use crate::wait::cores;

/// How long to look at least, where it pays: about what it costs to be woken.
const TIME_MIN: Duration = Duration::from_micros(50);
/// How long to look at most: round trips that are longer are worth a block.
const TIME_MAX: Duration = Duration::from_millis(1);
/// Looks in vain, one after the other, after which it is doubted that looking pays.
const VAIN_MAX: u32 = 4;
/// Of so many waits, one looks all the same, and for long, where waits are short: what was in vain
/// may pay by now.
const PROBE: u32 = 16;

/// What a thread that waits has learnt of looking.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    // Waits since looking last paid.
    vain: u32,
    // How long it took to pay, lately.
    usual: Duration,
    // How long waits took, lately, whether they looked or blocked.
    wait: Duration,
}

impl Spin {
    /// How long to look before the next block: four times as long as it has usually taken, as to be
    /// woken takes longer than to look on.
    pub(crate) fn allowance(&self) -> Duration {
        let is_probe = self.vain > 0 && self.vain.is_multiple_of(PROBE) && self.wait <= TIME_MAX;
        match self.vain {
            _ if cores() == 1 => Duration::ZERO,
            _ if is_probe => TIME_MAX,
            vain if vain < VAIN_MAX => (4 * self.usual).clamp(TIME_MIN, TIME_MAX),
            _ => Duration::ZERO,
        }
    }

    /// Takes note that something came when it had been looked for so long.
    pub(crate) fn has_paid(&mut self, after: Duration) {
        self.usual = if self.vain < VAIN_MAX { (7 * self.usual + after) / 8 } else { after };
        self.vain = 0;
    }

    /// Takes note that something came when it had been waited for so long.
    pub(crate) fn has_waited(&mut self, time: Duration) {
        self.wait = (7 * self.wait + time) / 8;
    }

    /// Takes note that nothing came before this thread blocked.
    pub(crate) fn was_in_vain(&mut self) {
        self.vain = self.vain.wrapping_add(1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The sum of so many looks in vain.
    fn looks(spin: &mut Spin, waits: u32) -> Duration {
        let look = |_| {
            let time = spin.allowance();
            spin.was_in_vain();
            time
        };
        (0..waits).map(look).sum()
    }

    #[test]
    fn who_looks_in_vain_looks_seldom_until_it_pays_again() {
        let may_look = u32::from(cores() > 1);
        let mut spin = Spin::default();
        assert_eq!(looks(&mut spin, 4), 4 * TIME_MIN * may_look);
        assert_eq!(looks(&mut spin, 10 * PROBE), 10 * TIME_MAX * may_look);
        (0..100).for_each(|_| spin.has_waited(2 * TIME_MAX));
        assert_eq!(looks(&mut spin, 10 * PROBE), Duration::ZERO);
        spin.has_paid(TIME_MIN / 4);
        assert_eq!(spin.allowance(), TIME_MIN * may_look);
    }

    #[test]
    fn who_waits_longer_looks_longer() {
        let may_look = u32::from(cores() > 1);
        let mut spin = Spin::default();
        looks(&mut spin, PROBE);
        spin.has_paid(2 * TIME_MIN);
        assert_eq!(spin.allowance(), 8 * TIME_MIN * may_look);
        (0..100).for_each(|_| spin.has_paid(TIME_MAX));
        assert_eq!(spin.allowance(), TIME_MAX * may_look);
        (0..100).for_each(|_| spin.has_paid(Duration::ZERO));
        assert_eq!(spin.allowance(), TIME_MIN * may_look);
    }
}
