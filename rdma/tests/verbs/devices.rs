//! The devices that tests run on.

use std::{
    env,
    io::{self, Write},
    sync::Once,
};

use pangea_rdma::{
    Result,
    verbs::{Library, Port, ProtectionDomain},
};

/// Active ports of two devices, or one of them twice; `None`, and a notice, where there are none.
pub(crate) fn ports() -> Option<[Port; 2]> {
    match find() {
        Ok(ports) => Some(ports),
        Err(reason) => {
            let must_be = env::var("PANGEA_TEST_VERBS").is_ok_and(|value| value == "1");
            assert!(!must_be, "PANGEA_TEST_VERBS is 1, but {reason}");
            static NOTICE: Once = Once::new();
            // Not by a macro, whose output the harness keeps from who reads.
            let mut stderr = io::stderr();
            NOTICE.call_once(|| writeln!(stderr, "not tested: verbs, as {reason}").unwrap());
            None
        }
    }
}

fn find() -> Result<[Port; 2]> {
    let mut ports = Port::all_active(&Library::load()?)?;
    ports.truncate(2);
    let first = ports[0].clone();
    let second = ports.pop().expect("there is at least one");
    Ok([first, second])
}

#[test]
fn what_was_taken_of_a_device_is_given_back() {
    let Some([port, _]) = ports() else { return };
    for _ in 0..300 {
        ProtectionDomain::new(&port).unwrap();
    }
}

#[test]
fn a_port_tells_its_addresses_and_limits() {
    let Some(ports) = ports() else { return };
    for port in ports {
        assert!(!port.gids().is_empty());
        assert!(port.is_active());
        assert!(port.message_len_max() >= 4096);
        let limits = port.context().limits();
        assert!(limits.queue_depth > 0 && limits.reads_begun > 0, "{limits:?}");
    }
}
