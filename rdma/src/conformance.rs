//! What every provider must do, whatever it is made of.
//!
//! A provider is a function that makes the nodes of a cluster ([`providers`]); a case is a function
//! that takes one and checks a promise of [`Fabric`](crate::Fabric). The table at the end is every
//! case for every provider, as tests called `conformance::provider::behaviour`. Threads stand for
//! processes; each node has one that serves its peers.

mod atomics;
mod cluster;
mod flow;
mod lent;
mod litmus;
mod losses;
mod messages;
mod node;
mod order;
mod providers;
mod refusals;
mod room;
mod rounds;
mod transfers;
mod waiting;

pub(crate) use self::{
    node::soon,
    providers::{meetings, plain},
};

/// Makes a test of every case that is named, for one provider.
macro_rules! tests_of {
    ($provider:ident; $($area:ident: $($case:ident),+;)+) => {
        mod $provider {
            $($(
                #[test]
                fn $case() {
                    super::$area::$case(super::providers::$provider);
                }
            )+)+
        }
    };
}

/// Has each of the providers pass the whole suite.
macro_rules! conform {
    ($($provider:ident),+) => {
        $(tests_of! {
            $provider;
            transfers:
                a_write_that_is_complete_is_seen_by_all,
                bytes_of_every_length_keep_their_neighbours,
                offsets_beyond_4_gib_are_reached,
                transfers_in_both_directions_are_whole;
            order:
                the_later_of_two_writes_wins,
                a_signal_comes_after_what_was_written,
                a_signal_waits_for_long_writes,
                a_read_sees_the_writes_before_it,
                nothing_overtakes_an_atomic_or_a_signal;
            atomics:
                atomics_return_the_word_before,
                every_addition_of_every_node_counts,
                a_lock_of_compare_swap_excludes;
            refusals:
                words_off_their_place_are_refused,
                ranges_outside_are_refused,
                what_is_unknown_is_refused;
            messages:
                messages_of_every_length_come_whole_and_in_order,
                everybody_hears_everybody_in_order;
            flow:
                a_full_queue_says_so_and_loses_nothing,
                a_peer_that_pauses_delays_and_loses_nothing,
                threads_share_a_fabric,
                forgotten_completions_harm_nobody,
                requests_from_within_a_poll_are_carried_out;
            room:
                messages_that_nobody_takes_are_few_and_hold_up_nothing_else,
                nodes_that_flood_each_other_and_never_poll_hear_signals,
                a_loss_ends_the_wait_for_room;
            losses:
                a_node_that_dies_ends_each_request_once,
                what_was_said_before_leaving_is_heard,
                a_loss_wakes_who_waits;
            waiting:
                a_signal_wakes_a_sleeper,
                a_message_wakes_a_sleeper;
            litmus:
                message_passing_by_signal,
                message_passing_by_completion,
                message_passing_over_two_homes,
                store_buffering_of_atomics,
                load_buffering,
                independent_reads_of_independent_writes,
                coherence_of_one_word;
        })+
    };
}

// `found` and `mixed` are TCP where there is no RDMA; with it, they are verbs (RC or UC), over a
// device or the fake Thunderbolt (`tests/conformance.sh`). Those of the simulator serve their peers
// even while they are paused, which is as if they had not been.
conform!(shm, tcp, sealed_tcp, found, mixed, sim, lossy_sim);
