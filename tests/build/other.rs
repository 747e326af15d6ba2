//! Another program, with types of its own: by its argument it shares one of them.

use std::{env, process::ExitCode};

use pangea::Portable;

mod same {
    use super::Portable;

    #[derive(Clone, Copy, Portable)]
    #[repr(C)]
    pub(super) struct Sample {
        pub(super) time: u32,
        pub(super) value: u32,
    }
}

mod sorted {
    use super::Portable;

    #[derive(Clone, Copy, Portable)]
    #[repr(C)]
    pub(super) struct Sample {
        pub(super) value: u32,
        pub(super) time: u32,
    }
}

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("same") => pangea_tests::share(same::Sample { time: 1, value: 2 }),
        _ => pangea_tests::share(sorted::Sample { time: 1, value: 2 }),
    }
}
