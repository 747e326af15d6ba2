//! Any sequence of calls does what the model does.

use pangea_alloc::BLOCK_BYTES;
use proptest::prelude::*;

use crate::shadow::Shadow;

#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, align: u64 },
    Free { number: usize },
    FreeTwice { number: usize },
    FreeAnything { offset: u64 },
}

/// Sizes of every magnitude, and those beside the borders of the allocator.
fn size() -> impl Strategy<Value = u64> {
    let magnitude = (0_u32..22).prop_flat_map(|bits| 0..=1_u64 << bits);
    let border =
        (0_u32..22, -1_i64..=1).prop_map(|(bits, by)| (1_u64 << bits).saturating_add_signed(by));
    prop_oneof![4 => magnitude, 1 => border]
}

fn step(capacity: u64) -> impl Strategy<Value = Step> {
    let align = prop_oneof![3 => 0_u32..5, 2 => 0_u32..22].prop_map(|bits| 1_u64 << bits);
    prop_oneof![
        6 => (size(), align).prop_map(|(size, align)| Step::Allocate { size, align }),
        3 => any::<usize>().prop_map(|number| Step::Free { number }),
        1 => any::<usize>().prop_map(|number| Step::FreeTwice { number }),
        1 => (0..capacity * 2).prop_map(|offset| Step::FreeAnything { offset }),
        1 => (0..capacity / 8).prop_map(|granule| Step::FreeAnything { offset: granule * 8 }),
    ]
}

fn carry_out(shadow: &mut Shadow, step: &Step) {
    match *step {
        Step::Allocate { size, align } => {
            // A refusal is checked by the shadow.
            let _ = shadow.allocate(size, align);
        }
        Step::Free { number } => {
            shadow.free_nth(number);
        }
        Step::FreeTwice { number } => {
            if let Some(offset) = shadow.free_nth(number) {
                shadow.free(offset);
            }
        }
        Step::FreeAnything { offset } => shadow.free(offset),
    }
}

fn check(capacity: u64, reserved: u64, steps: &[Step]) {
    let mut shadow = Shadow::new(capacity, reserved);
    for step in steps {
        carry_out(&mut shadow, step);
    }
    shadow.check_statistics();
    shadow.check_full_reuse();
}

proptest! {
    #[test]
    fn a_roomy_heap_does_as_the_model(steps in prop::collection::vec(step(64 << 20), 1..400)) {
        check(64 << 20, 3 * BLOCK_BYTES, &steps);
    }

    #[test]
    fn a_tight_heap_does_as_the_model(steps in prop::collection::vec(step(1 << 20), 1..400)) {
        check(1 << 20, BLOCK_BYTES, &steps);
    }

    #[test]
    fn a_heap_of_a_few_blocks_does_as_the_model(
        blocks in 0_u64..6,
        reserved in 0_u64..6,
        steps in prop::collection::vec(step(6 * BLOCK_BYTES), 1..100),
    ) {
        check(blocks * BLOCK_BYTES, reserved.min(blocks) * BLOCK_BYTES, &steps);
    }
}
