//! What devices say of themselves.

use std::{ffi::CStr, mem, ptr};

use pangea_rdma::verbs::sys::{
    IBV_LINK_LAYER_THUNDERBOLT, IBV_PORT_ACTIVE, IBV_PORT_DOWN, ibv_device_attr, ibv_port_attr,
    ibv_qp_init_attr, ibv_sge,
};

use crate::{
    lab::{Lab, connected},
    machine::{Machine, open_device},
    verbs::verbs,
};

fn port(machine: &Machine) -> ibv_port_attr {
    // SAFETY: of integers, for which zero is valid.
    let mut attr = unsafe { mem::zeroed() };
    assert_eq!(verbs().ibv_query_port(machine.context, 1, &mut attr), 0);
    attr
}

fn names(lab: &Lab, host: u8) -> Vec<String> {
    lab.as_host(host, || {
        let mut count = 0;
        let list = verbs().ibv_get_device_list(&mut count);
        let names = (0..usize::try_from(count).unwrap()).map(|index| {
            // SAFETY: the list is as long as it says.
            let device = unsafe { *list.wrapping_add(index) };
            // SAFETY: a string that lives as long as its device.
            let name = unsafe { CStr::from_ptr(verbs().ibv_get_device_name(device)) };
            name.to_str().unwrap().to_owned()
        });
        let names = names.collect();
        verbs().ibv_free_device_list(list);
        names
    })
}

#[test]
fn a_device_is_named_after_its_port() {
    let lab = Lab::new(&[("CABLES", "0.en3-1.en5,0.en4-2.en2")]);
    assert_eq!(names(&lab, 0), ["rdma_en3", "rdma_en4"]);
    assert_eq!(names(&lab, 1), ["rdma_en5"]);
    assert!(names(&lab, 3).is_empty(), "a host without a cable");
    let attr = port(&lab.device(1, "rdma_en5"));
    assert_eq!(attr.link_layer, IBV_LINK_LAYER_THUNDERBOLT);
    // 8X lanes of 10 Gb/s.
    assert_eq!((attr.active_width, attr.active_speed), (4, 8));
}

#[test]
fn a_device_lives_as_long_as_its_context() {
    let lab = Lab::new(&[]);
    let machine = lab.host(0);
    // SAFETY: the context is open; the list in which the device was found has been freed.
    let device = unsafe { (*machine.context).device };
    // SAFETY: a string that lives as long as its device.
    assert_eq!(unsafe { CStr::from_ptr(verbs().ibv_get_device_name(device)) }, c"rdma_en2");
}

#[test]
fn wrong_settings_do_not_pass_for_a_machine_without_devices() {
    let lab = Lab::new(&[("CABLES", "0.en2")]);
    let mut count = 7;
    let list = lab.as_host(0, || verbs().ibv_get_device_list(&mut count));
    assert!(list.is_null());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_port_is_active_when_both_ends_are_up() {
    let up = Lab::new(&[]);
    assert_eq!(port(&up.host(0)).state, IBV_PORT_ACTIVE);
    for down in ["0.en2", "1.en2"] {
        let lab = Lab::new(&[("DOWN", down)]);
        let context = lab.as_host(0, || open_device("rdma_en2"));
        // SAFETY: of integers, for which zero is valid.
        let mut attr: ibv_port_attr = unsafe { mem::zeroed() };
        assert_eq!(verbs().ibv_query_port(context, 1, &mut attr), 0);
        assert_eq!(attr.state, IBV_PORT_DOWN, "{down}");
        assert_eq!(verbs().ibv_close_device(context), 0);
    }
}

#[test]
fn a_port_that_is_down_gives_no_domain() {
    let lab = Lab::new(&[("DOWN", "0.en2")]);
    let context = lab.as_host(0, || open_device("rdma_en2"));
    assert!(verbs().ibv_alloc_pd(context).is_null());
    assert_eq!(verbs().ibv_close_device(context), 0);
}

#[test]
fn the_second_gid_is_the_ipv4_address() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    for machine in [&one, &other] {
        assert_eq!(machine.gid(0).raw[..2], [0xfe, 0x80]);
        assert_eq!(machine.gid(1).raw[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(machine.gid(2).raw[..2], [0xfe, 0x80]);
        let mut gid = machine.gid(2);
        assert_eq!(verbs().ibv_query_gid(machine.context, 1, 3, &mut gid), -1);
        let mut pkey = 0;
        assert_eq!(verbs().ibv_query_pkey(machine.context, 1, 0, &mut pkey), 0);
    }
    assert_ne!(one.gid(1), other.gid(1));
}

#[test]
fn limits_are_told_and_kept() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    // SAFETY: of integers, for which zero is valid.
    let mut attr: ibv_device_attr = unsafe { mem::zeroed() };
    assert_eq!(verbs().ibv_query_device(one.context, &mut attr), 0);
    assert_eq!((attr.max_qp, attr.max_mr, attr.max_pd), (11, 100, 11));
    assert_eq!((attr.max_sge, attr.max_qp_rd_atom, attr.max_srq), (1, 0, 0));
    let changes: [fn(&mut ibv_qp_init_attr); 5] = [
        |asked| asked.cap.max_send_sge = 2,
        |asked| asked.cap.max_recv_sge = 2,
        |asked| asked.cap.max_inline_data = 1,
        |asked| asked.cap.max_send_wr = 4096,
        |asked| asked.srq = ptr::dangling_mut(),
    ];
    for change in changes {
        let refused = one.try_pair(change).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
    let (ours, _theirs) = connected(&one, &other);
    assert_eq!(port(&one).max_msg_sz, 4095 * 4096);
    let too_long = ibv_sge { addr: 0, length: 4095 * 4096 + 1, lkey: 0 };
    assert_eq!(ours.send(1, too_long).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(ours.receive(1, too_long).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}
