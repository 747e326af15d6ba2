//! Devices and what they say of themselves.

use std::{
    ffi::{c_char, c_int},
    mem, ptr,
    sync::Arc,
};

use pangea_rdma::{
    page_size,
    verbs::sys::{
        IBV_LINK_LAYER_THUNDERBOLT, IBV_MTU_4096, IBV_PORT_ACTIVE, IBV_PORT_DOWN, ibv_context,
        ibv_context_ops, ibv_device, ibv_device_attr, ibv_gid, ibv_port_attr,
    },
};

use super::{ContextHandle, completion, queue_pair};
use crate::{
    cabling::GIDS,
    context::Context,
    device::Device,
    errno::{Errno, Result, pointer, set},
    limit,
    settings::Settings,
};

const INVALID: Errno = Errno(libc::EINVAL);
/// Eight lanes of 10 Gb/s each (1.1), as the header numbers widths and speeds.
const WIDTH_8X: u8 = 4;
const SPEED_10: u8 = 8;
/// Bytes of `ibv_port_attr` that this library writes: those of the system with the shorter one.
const PORT_ATTR_LEN: usize = 52;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let devices = match Settings::from_env() {
        Ok(settings) => Device::all(&Arc::new(settings)),
        Err(reason) => {
            // The interface has no room for the reason, and a wrong setting must not pass for a
            // machine without devices.
            eprintln!("fake-thunderbolt: {reason}");
            set(INVALID);
            return ptr::null_mut();
        }
    };
    if !count.is_null() {
        // SAFETY: the contract.
        unsafe { *count = c_int::try_from(devices.len()).expect("a host has few ports") };
    }
    let pointers = devices.into_iter().map(|device| Arc::into_raw(device).cast_mut().cast());
    let list: Box<[*mut ibv_device]> = pointers.chain([ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    let mut len = 0;
    loop {
        // SAFETY: the contract: the list ends with null, which is not passed.
        let device = unsafe { *list.wrapping_add(len) };
        len += 1;
        if device.is_null() {
            break;
        }
        // SAFETY: the list holds a count of each device, which is given up here.
        drop(unsafe { Arc::from_raw(device.cast::<Device>()) });
    }
    let list = ptr::slice_from_raw_parts_mut(list, len);
    // SAFETY: a box of this length, made by `ibv_get_device_list`.
    drop(unsafe { Box::from_raw(list) });
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the contract.
    unsafe { &*device.cast::<Device>() }.name().as_ptr()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let shared: *const Device = device.cast();
    // SAFETY: the contract: the list, or a context, holds a count of the device.
    unsafe { Arc::increment_strong_count(shared) };
    // SAFETY: the count that was just added.
    let context = Context::open(unsafe { Arc::from_raw(shared) });
    let context = context.map_err(Errno::from);
    pointer(context.map(|context| {
        let ops = operations();
        let abi = ibv_context { device, ops, cmd_fd: -1, async_fd: -1, num_comp_vectors: 1 };
        ContextHandle::give(abi, context)
    }))
}

/// What is called through an open device, not by name.
fn operations() -> ibv_context_ops {
    ibv_context_ops {
        _before_poll_cq: [ptr::null_mut(); 11],
        poll_cq: Some(completion::poll_cq),
        req_notify_cq: Some(completion::req_notify_cq),
        _before_post_send: [ptr::null_mut(); 12],
        post_send: Some(queue_pair::post_send),
        post_recv: Some(queue_pair::post_recv),
        _after_post_recv: [ptr::null_mut(); 5],
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { ContextHandle::of(context) };
    if let Err(errno) = handle.is_unused() {
        return errno.0;
    }
    // SAFETY: the contract: it is used no more.
    drop(unsafe { ContextHandle::take(context) });
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_device(
    _context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the contract: there is room for the attributes.
    unsafe { attr.write_bytes(0, 1) };
    // SAFETY: as above; zero is valid for all of them.
    let attr = unsafe { &mut *attr };
    let count = |limit: usize| c_int::try_from(limit).expect("limits are small");
    attr.max_mr_size = limit::REGION_LEN_TOLD;
    attr.page_size_cap = page_size() as u64;
    attr.max_qp = limit::QUEUE_PAIRS_TOLD;
    attr.max_qp_wr = limit::FRAMES.cast_signed();
    attr.max_sge = 1;
    attr.max_cq = limit::QUEUE_PAIRS_TOLD;
    attr.max_cqe = limit::COMPLETIONS;
    attr.max_mr = count(limit::REGIONS);
    attr.max_pd = count(limit::DOMAINS);
    attr.max_pkeys = 1;
    attr.phys_port_cnt = 1;
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    if port != 1 {
        return INVALID.0;
    }
    // SAFETY: the contract.
    let is_active = unsafe { ContextHandle::of(context) }.inner.is_active();
    // SAFETY: of integers, for which zero is valid.
    let mut told: ibv_port_attr = unsafe { mem::zeroed() };
    told.state = if is_active { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN };
    told.max_mtu = IBV_MTU_4096;
    told.active_mtu = IBV_MTU_4096;
    told.gid_tbl_len = c_int::try_from(GIDS).expect("a table is short");
    told.max_msg_sz = u32::try_from(limit::MESSAGE_LEN).expect("a message is short");
    told.pkey_tbl_len = 1;
    told.active_width = WIDTH_8X;
    told.active_speed = SPEED_10;
    told.link_layer = IBV_LINK_LAYER_THUNDERBOLT;
    // SAFETY: the contract: there is room for the shortest `ibv_port_attr` of any system.
    unsafe { attr.cast::<u8>().copy_from((&raw const told).cast(), PORT_ATTR_LEN) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: the contract.
    let context = &unsafe { ContextHandle::of(context) }.inner;
    match find_gid(context, port, index) {
        Ok(found) => {
            // SAFETY: the contract: there is room for it.
            unsafe { *gid = found };
            0
        }
        Err(errno) => failed(errno),
    }
}

fn find_gid(context: &Context, port: u8, index: c_int) -> Result<ibv_gid> {
    let Device { settings, port: own, .. } = &*context.device;
    let gids = settings.cabling.gids(*own).filter(|_| port == 1).ok_or(INVALID)?;
    let index = usize::try_from(index).map_err(|_| INVALID)?;
    gids.get(index).copied().ok_or(INVALID)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    if port != 1 || index != 0 {
        return failed(INVALID);
    }
    // SAFETY: the contract: there is room for it.
    unsafe { *pkey = u16::MAX };
    0
}

/// How the look-ups in tables say that they failed.
fn failed(errno: Errno) -> c_int {
    set(errno);
    -1
}
