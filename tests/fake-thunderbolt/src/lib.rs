//! A verbs library that behaves as Apple's RDMA over Thunderbolt does, without the hardware.
//!
//! It is loaded like any other (`PANGEA_VERBS_LIBRARY=.../libpangea_fake_thunderbolt.so`), so that
//! everything above it runs as on a Mac, across processes. Queue pairs move frames through memory
//! that both ends map; a process that dies is silence. Each habit of the hardware is here because
//! somebody was hurt by it: a test fails whoever relies on the opposite.
//!
//! # Hardware, by the environment
//!
//! Variables, with `PANGEA_FAKE_TB_` before their names; each `ibv_get_device_list` reads them.
//!
//! | variable | is | default |
//! |---|---|---|
//! | `DIR` | where the hosts' processes meet: a directory of this job's own | needed |
//! | `HOST` | this process's host | `PANGEA_NODE`, or 0 |
//! | `HOSTS` | how many hosts there are, one cable between every two | `PANGEA_NODES`, or 2 |
//! | `CABLES` | other cables: `0.en2-1.en2,0.en3-2.en2` | |
//! | `DOWN` | ports that are down: `0.en3,1.en2` | none |
//! | `EVENTS` | completion channels: `1` work, `0` are refused, `silent` never tell | `1` |
//! | `CLAIMS` | contradicted reports that are true | `regions-first,cold-neighbours` |
//! | `LOSS`, `DUPLICATE`, `CORRUPT` | probability for each frame | 0 |
//! | `STALL_MS` | how long a queue pair stops sending, once in 1000 frames | 0 |
//! | `SEED` | of the faults: it and a queue pair's number decide them all | 0 |
//!
//! # Habits
//!
//! Each by the test in `tests/it` that shows it, with its evidence: sections of `apple-rdma.md`.
//!
//! Devices:
//! - `a_device_is_named_after_its_port`: `rdma_en2`, ...; link layer 100, 8 x 10 Gb/s (1.1).
//! - `a_port_is_active_when_both_ends_are_up`: when both hosts have RDMA enabled (1.1).
//! - `a_port_that_is_down_gives_no_domain`: null, which many forgot to look for (1.4).
//! - `the_second_gid_is_the_ipv4_address`: the others are link-local (1.2).
//!
//! Limits:
//! - `limits_are_told_and_kept`: one piece of memory a request, nothing inline, no shared receive
//!   queue, messages of 4095 frames (1.2).
//! - `only_uc_is_supported`: RC and UD are EOPNOTSUPP (0, 1.4).
//! - `one_sided_operations_are_refused`: SEND and RECV are all there is (0). Whether a post of
//!   another kind fails is not known; one report has it arrive as if it were a SEND.
//! - `a_region_has_no_remote_key`: it is zero, whatever access was asked for (0).
//! - `a_region_begins_at_a_page`: or is refused (1.2).
//! - `the_eleventh_queue_pair_is_refused`: of a device, not of a context, that says it has 11;
//!   EBUSY (1.2). `queue_pairs_are_counted_over_processes_that_live`.
//! - `the_hundred_and_first_region_is_refused`: null (1.2).
//! - `the_twelfth_domain_is_refused`: null (1.2).
//! - `a_queue_takes_what_query_says`: in frames; 256 becomes 1023, 4095 stays (1.2).
//! - `receives_beyond_the_budget_are_spoiled`: more than 4095 frames are taken, and corrupted
//!   (1.3, SQCU).
//! - `data_beyond_four_gibibytes_goes_astray`: of an address, only the low 32 bits count (1.2).
//!
//! Connections:
//! - `only_the_other_end_of_the_cable_is_reached`: others are ETIMEDOUT, no address EINVAL (1.4).
//! - `a_link_local_address_is_found_once_warm`: claim `cold-neighbours`: ETIMEDOUT (1.3, mlx #3468;
//!   SQCU uses it after a ping).
//! - `a_region_must_come_before_the_connection`: claim `regions-first` (1.3, SQCU alone). How it
//!   fails is not known: here with LOC_PROT_ERR.
//! - `receives_before_rts_may_be_refused`: claim `ready-first` (1.3, llama.cpp; MCDMA and hellas
//!   post them in INIT).
//! - `local_regions_may_be_refused`: claim `remote-access` (1.3, llama.cpp; TN3205 uses them).
//! - `parents_outlive_their_children`: QP, CQ, MR, PD, context is the order; EBUSY (1.3).
//!
//! Messages:
//! - `a_send_waits_for_a_receive`: the hardware's credit (1.3).
//! - `a_send_completes_before_it_is_delivered`, `a_completed_send_may_be_lost`: a completion says
//!   that the message has left (1.3).
//! - `frame_counts_must_match`: of a send and its receive; LOC_LEN_ERR (1.3, TN3205).
//! - `a_long_message_fills_successive_receives`: LOC_LEN_ERR, but for the last (1.3, MCDMA).
//! - `a_lost_end_is_found_by_the_next_message`: LOC_LEN_ERR; but an end and a start that are lost
//!   make one message of two, and nobody says so. Inferred from frames having no more than marks
//!   for the first and the last (0).
//! - `an_empty_message_is_lost`: (1.3, MCDMA).
//! - `a_dead_peer_is_silence`, `a_pulled_cable_is_silence`: nothing fails, nothing completes (1.3).
//! - `a_channel_wakes_who_waits`, `channels_may_be_refused_or_silent`: nobody has tried (1.2).
//!
//! Not imitated: kernel panics, processes that cannot be killed, leaked domains, the fault in
//! `tbt_post_recv` when a cable is pulled (1.5), and budgets per boot (1.4).
//!
//! # How it differs
//!
//! No adapter works while the program does not: frames move when either end calls a verb, and while
//! a completion queue is armed. A wire holds 128 frames: a sender whose peer does not poll stops
//! there, where hardware would go on into memory that is posted. Reordering there is none, as on
//! one cable.

mod abi;
mod adapter;
mod cabling;
mod completion;
mod context;
mod device;
mod engine;
mod errno;
mod fault;
mod limit;
mod memory;
mod queue_pair;
mod settings;
mod shared;
mod wire;

use std::{
    env::{
        self,
        consts::{DLL_PREFIX, DLL_SUFFIX},
    },
    io,
    path::{Path, PathBuf},
};

use crate::adapter::{Adapter, Resource};

/// The library's file, for a test or a program of this workspace that depends on this package.
///
/// Cargo puts it beside what it builds for tests: the executable's directory, or `deps` in it.
pub fn library_path() -> io::Result<PathBuf> {
    let executable = env::current_exe()?;
    let directory = executable.parent().unwrap_or(Path::new("."));
    let name = format!("{DLL_PREFIX}pangea_fake_thunderbolt{DLL_SUFFIX}");
    let places = [directory.join("deps").join(&name), directory.join(&name)];
    places.into_iter().find(|place| place.exists()).ok_or_else(|| {
        let reason = format!("no {name} beside {}", executable.display());
        io::Error::new(io::ErrorKind::NotFound, reason)
    })
}

/// Pulls the cable out of a port, `0.en2`, or puts it back, for the processes that meet in
/// `directory`. Nobody is told.
pub fn plug(directory: &Path, port: &str, is_plugged: bool) -> io::Result<()> {
    let port = port.parse().map_err(io::Error::other)?;
    Adapter::open(directory, port)?.plug(is_plugged);
    Adapter::ring_all(directory)
}

/// What of a port's adapter was not given back, by whichever process took it, alive or not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InUse {
    /// Queue pairs.
    pub queue_pairs: usize,
    /// Memory regions.
    pub regions: usize,
    /// Protection domains.
    pub domains: usize,
}

/// Counts what of a port's adapter, `0.en2`, is in use by the processes that meet in `directory`.
pub fn in_use(directory: &Path, port: &str) -> io::Result<InUse> {
    let adapter = Adapter::open(directory, port.parse().map_err(io::Error::other)?)?;
    Ok(InUse {
        queue_pairs: adapter.in_use(Resource::QueuePair),
        regions: adapter.in_use(Resource::Region),
        domains: adapter.in_use(Resource::Domain),
    })
}
