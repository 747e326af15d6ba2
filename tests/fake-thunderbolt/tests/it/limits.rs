//! What there is few of, and what happens beyond.

use std::io;

use pangea_rdma::{
    page_size,
    verbs::sys::{
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC,
        IBV_WC_SUCCESS,
    },
};

use crate::{
    lab::{Lab, connected},
    machine::Machine,
    verbs::verbs,
};

/// UD, which only this test names.
const QPT_UD: u32 = 4;

fn refused<T>(result: io::Result<T>) -> Option<i32> {
    result.err().expect("it is refused").raw_os_error()
}

#[test]
fn only_uc_is_supported() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    for kind in [IBV_QPT_RC, QPT_UD] {
        let made = machine.try_pair(|asked| asked.qp_type = kind);
        assert_eq!(refused(made), Some(libc::EOPNOTSUPP));
    }
}

#[test]
fn the_eleventh_queue_pair_is_refused() {
    let lab = Lab::new(&[]);
    // Of one device, however often it is opened.
    let (machine, again) = (lab.host(0), lab.host(0));
    let mut pairs: Vec<_> = (0..9).map(|_| machine.pair()).collect();
    pairs.push(again.pair());
    assert_eq!(refused(machine.try_pair(|_| ())), Some(libc::EBUSY));
    pairs.pop();
    machine.pair();
    // The host at the other end has its own.
    lab.host(1).pair();
}

#[test]
fn the_hundred_and_first_region_is_refused() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    let mut memory: Vec<_> = (0..100).map(|_| machine.memory(page_size())).collect();
    let address = machine_page();
    let more = || machine.register(address, page_size(), IBV_ACCESS_LOCAL_WRITE);
    assert_eq!(refused(more()), Some(libc::ENOMEM));
    memory.pop();
    more().unwrap();
}

/// An address that may be registered, of memory that is not touched.
fn machine_page() -> *mut u8 {
    std::ptr::without_provenance_mut(page_size())
}

#[test]
fn the_twelfth_domain_is_refused() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    let domains: Vec<_> = (0..10).map(|_| verbs().ibv_alloc_pd(machine.context)).collect();
    assert!(domains.iter().all(|domain| !domain.is_null()));
    assert!(verbs().ibv_alloc_pd(machine.context).is_null(), "the machine has one itself");
    assert!(domains.into_iter().all(|domain| verbs().ibv_dealloc_pd(domain) == 0));
}

#[test]
fn a_region_begins_at_a_page() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    let address = machine_page().wrapping_add(512);
    let made = machine.register(address, 4096, IBV_ACCESS_LOCAL_WRITE);
    assert_eq!(refused(made), Some(libc::EINVAL));
}

#[test]
fn a_region_has_no_remote_key() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    let region = machine.register(machine_page(), page_size(), access).unwrap();
    // SAFETY: the region lives.
    let rkey = unsafe { (*region.raw).rkey };
    assert_eq!(rkey, 0);
}

#[test]
fn a_queue_takes_what_query_says() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    for (asked, given) in [(256, 1023), (4095, 4095)] {
        let ours = one.try_pair(|attr| attr.cap.max_send_wr = asked).unwrap();
        let theirs = other.pair();
        assert_eq!(ours.query().cap.max_send_wr, given);
        let memory = one.memory(2 * 4096);
        ours.connect(other.gid(1), theirs.number()).unwrap();
        // Two frames each: the depth is in frames.
        for id in 0..u64::from(given / 2) {
            ours.send(id, memory.part(0, 4097)).unwrap();
        }
        assert_eq!(refused(ours.send(0, memory.part(0, 4097))), Some(libc::ENOMEM));
    }
}

#[test]
fn receives_beyond_the_budget_are_spoiled() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(4096), other.memory(4096));
    let (ours, theirs) = connected(&one, &other);
    for id in 0..4096 {
        theirs.receive(id, to.part(0, 4096)).unwrap();
    }
    from.write(0, &[1; 4096]);
    let deliver = |id: u64| {
        ours.send(id, from.part(0, 4096)).unwrap();
        assert_eq!(one.wait().wr_id, id);
        let received = other.wait();
        assert_eq!((received.wr_id, received.status), (id, IBV_WC_SUCCESS));
        to.read(0, 4096)
    };
    for id in 0..4095 {
        assert_eq!(deliver(id), [1; 4096]);
    }
    assert_ne!(deliver(4095), [1; 4096], "of a receive that was one too many");
}

#[test]
fn data_beyond_four_gibibytes_goes_astray() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, address) = (one.memory(4096), across_four_gibibytes());
    let region = other.register(address, 2 * BOUNDARY, IBV_ACCESS_LOCAL_WRITE).unwrap();
    let (ours, theirs) = connected(&one, &other);
    from.write(0, &[7; 4096]);
    for (offset, expected) in [(0, 7), (BOUNDARY, 0)] {
        theirs.receive(1, region.part(offset, 4096)).unwrap();
        ours.send(1, from.part(0, 4096)).unwrap();
        // Nothing tells that anything is wrong.
        assert_eq!(other.wait().status, IBV_WC_SUCCESS);
        // SAFETY: mapped below, and written by nobody now.
        assert_eq!(unsafe { *address.wrapping_add(offset) }, expected, "at {offset}");
    }
    unmap(address);
    reads_astray(&one, &other);
}

/// Bytes before and after the boundary.
const BOUNDARY: usize = 64 << 10;

fn reads_astray(one: &Machine, other: &Machine) {
    let (address, to) = (across_four_gibibytes(), other.memory(4096));
    let region = one.register(address, 2 * BOUNDARY, IBV_ACCESS_LOCAL_WRITE).unwrap();
    let (ours, theirs) = connected(one, other);
    theirs.receive(1, to.part(0, 4096)).unwrap();
    ours.send(1, region.part(BOUNDARY, 4096)).unwrap();
    assert_eq!(other.wait().status, IBV_WC_SUCCESS);
    assert_ne!(to.read(0, 4096), [0; 4096], "what was sent is not what was read");
    drop(region);
    unmap(address);
}

/// Maps memory of which the second half begins at a multiple of 4 GiB.
fn across_four_gibibytes() -> *mut u8 {
    let places = (16..4096_usize).map(|step| (step << 32) - BOUNDARY);
    let mut mapped = places.filter_map(|place| {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        let hint = std::ptr::without_provenance_mut(place);
        // SAFETY: a new mapping, wherever there is room; the address is a wish.
        let found = unsafe { libc::mmap(hint, 2 * BOUNDARY, protection, flags, -1, 0) };
        if found == hint {
            return Some(found.cast());
        }
        unmap(found.cast());
        None
    });
    mapped.next().expect("some 4 GiB boundary is free")
}

fn unmap(address: *mut u8) {
    // SAFETY: mapped by `across_four_gibibytes`, and used no more.
    assert_eq!(unsafe { libc::munmap(address.cast(), 2 * BOUNDARY) }, 0);
}
