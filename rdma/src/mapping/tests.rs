//! Behaviour of mappings and reservations.

use std::sync::Arc;

use super::*;
use crate::primitive::Ordering;

#[test]
#[should_panic(expected = "alone")]
fn a_part_of_a_reservation_is_mapped_once() {
    let reservation = Arc::new(Reservation::anywhere(4 * page_size()).unwrap());
    let _first = reservation.map(page_size(), SharedObject::new(2 * page_size()).unwrap());
    _ = reservation.map(2 * page_size(), SharedObject::new(1).unwrap());
}

#[test]
fn two_mappings_of_an_object_show_the_same_bytes() {
    let ours = Mapping::new(1).unwrap();
    let descriptor = ours.object().descriptor().try_clone_to_owned().unwrap();
    let theirs = SharedObject::from_peer(descriptor, ours.len() as u64).unwrap().map().unwrap();
    ours.write(3, b"pangea").unwrap();
    let mut seen = [0; 6];
    theirs.read(3, &mut seen).unwrap();
    assert_eq!(&seen, b"pangea");
    theirs.word(16).unwrap().store(7, Ordering::Relaxed);
    assert_eq!(ours.word(16).unwrap().load(Ordering::Relaxed), 7);
}

#[test]
fn a_range_outside_is_an_error_that_names_it() {
    let mapping = Mapping::new(page_size()).unwrap();
    let len = mapping.len() as u64;
    for (offset, count) in [(len, 1), (u64::MAX - 3, 8), (0, len + 1), (1, u64::MAX)] {
        let error = mapping.range(offset, count).unwrap_err();
        assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
    }
    mapping.range(len, 0).unwrap();
    mapping.read(len, &mut []).unwrap();
}

#[test]
fn a_misaligned_word_is_an_error() {
    let mapping = Mapping::new(page_size()).unwrap();
    for offset in 1..8 {
        assert!(matches!(mapping.word(offset), Err(Error::Unaligned { align: 8, .. })));
    }
}

#[test]
fn cleared_bytes_are_zero_and_their_neighbours_stay() {
    let mapping = Mapping::new(4 * page_size()).unwrap();
    let len = mapping.len() as u64;
    mapping.write(0, &vec![0xAB; mapping.len()]).unwrap();
    let (from, to) = (page_size() as u64 - 5, 3 * page_size() as u64 + 9);
    mapping.clear(from, to - from).unwrap();
    let mut bytes = vec![0; mapping.len()];
    mapping.read(0, &mut bytes).unwrap();
    for (at, byte) in (0..len).zip(bytes) {
        assert_eq!(byte == 0, (from..to).contains(&at), "byte {at}");
    }
    mapping.clear(len, 0).unwrap();
    mapping.clear(5, 1).unwrap();
}

#[test]
fn a_reservation_never_overwrites_what_is_there() {
    let first = Reservation::anywhere(1 << 20).unwrap();
    assert!(Reservation::at(first.address(), 1 << 20).unwrap().is_none());
    let address = first.address();
    drop(first);
    let again = Reservation::at(address, 1 << 20).unwrap().expect("the range is free again");
    let mapping = Arc::new(again).map(page_size(), SharedObject::new(5).unwrap()).unwrap();
    assert_eq!(mapping.as_ptr().as_ptr().addr(), address + page_size());
}

#[test]
fn an_object_smaller_than_announced_is_refused() {
    let object = SharedObject::new(page_size()).unwrap();
    let descriptor = object.descriptor().try_clone_to_owned().unwrap();
    let error = SharedObject::from_peer(descriptor, object.len() as u64 + 1).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[test]
fn hints_about_large_pages_change_no_byte() {
    let mapping = Mapping::new(8 << 20).unwrap();
    mapping.write(5 << 20, b"stays").unwrap();
    mapping.coalesce(0, 8 << 20).unwrap();
    let mut seen = [0; 5];
    mapping.read(5 << 20, &mut seen).unwrap();
    assert_eq!(&seen, b"stays");
}
