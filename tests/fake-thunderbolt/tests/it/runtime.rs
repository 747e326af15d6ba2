//! The runtime's own verbs, over this library.

use std::env;

use pangea_rdma::verbs::{
    LIBRARY_VARIABLE, Library, Port, ProtectionDomain, Wire,
    uc::{Event, FRAME_LEN, Uc},
};

use crate::lab::Lab;

/// Slots to send from, and receives that are posted.
const SLOTS: u32 = 64;

/// An end of a connection, of a host.
fn end(lab: &Lab, host: u8) -> Uc {
    lab.as_host(host, || {
        let path = pangea_fake_thunderbolt::library_path().unwrap();
        // SAFETY: as all variables, set with the environment locked.
        unsafe { env::set_var(LIBRARY_VARIABLE, path) };
        let library = Library::load().unwrap();
        let port = Port::all_active(&library).unwrap().swap_remove(0);
        assert_eq!(port.wire(), Wire::Thunderbolt);
        let domain = ProtectionDomain::new(&port).unwrap();
        Uc::new(&domain, SLOTS, SLOTS, 0).unwrap()
    })
}

#[test]
fn the_runtime_exchanges_frames_over_it() {
    let lab = Lab::new(&[]);
    let (mut one, mut other) = (end(&lab, 0), end(&lab, 1));
    let endpoints = (one.endpoint(), other.endpoint());
    one.connect(&endpoints.1).unwrap();
    other.connect(&endpoints.0).unwrap();
    let mut next = 0_u32;
    for number in 0..10_000_u32 {
        let slot = number % SLOTS;
        loop {
            if let Some(bytes) = one.slot(slot) {
                bytes[..4].copy_from_slice(&number.to_le_bytes());
                break;
            }
            one.poll(&mut |_| ());
        }
        assert!(one.send(slot, FRAME_LEN), "a free slot has room in the queue");
        other.poll(&mut |event| {
            let Event::Frame(bytes) = event else { panic!("{event:?}") };
            assert_eq!(bytes.len(), FRAME_LEN);
            assert_eq!(bytes[..4], next.to_le_bytes());
            next += 1;
        });
    }
    assert!(next > 9_000 && one.lost().is_none() && other.lost().is_none(), "{next}");
}
