//! The C interface of the verbs, as far as it is called: rdma-core's `infiniband/verbs.h`.
//!
//! Names are those of the header. Structures that only the library makes are declared as far as
//! they are read; what follows in them differs between systems. The assertions at the end hold on
//! Linux and on macOS alike.

#![expect(non_camel_case_types, reason = "spelled as in the header")]

mod constant;
pub mod function;
#[cfg_attr(target_os = "linux", path = "sys/linux.rs")]
#[cfg_attr(target_os = "macos", path = "sys/macos.rs")]
mod os;

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    fmt,
    mem::offset_of,
};

pub use constant::*;
pub use os::{LIBRARY, LIBRARY_REMEDY, remedy};

/// A device, known by its address only.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_device {
    _opaque: [u8; 0],
}

/// The start of an open device.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
}

/// The functions of a device's driver; those that are not called are not spelled.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_context_ops {
    pub _before_poll_cq: [*mut c_void; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub _before_post_send: [*mut c_void; 12],
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub _after_post_recv: [*mut c_void; 5],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ibv_device_attr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_uint,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// A port, as far as both systems agree; `_room` is for what a library writes behind it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ibv_port_attr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    pub _room: [u32; 12],
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
pub struct ibv_gid {
    pub raw: [u8; 16],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// The start of a protection domain.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
}

/// A memory region, whole.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// A completion channel, whole.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

/// The start of a completion queue.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}

/// The start of a queue pair.
#[derive(Debug)]
#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub cap: ibv_qp_cap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_qp_attr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut Self,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// In network byte order.
    pub imm_data: u32,
    pub wr: ibv_send_wr_target,
    pub _after_wr: [u64; 7],
}

/// The anonymous union `wr` of [`ibv_send_wr`].
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_send_wr_target {
    pub rdma: ibv_send_wr_rdma,
    pub atomic: ibv_send_wr_atomic,
}

impl fmt::Debug for ibv_send_wr_target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ibv_send_wr_target")
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut Self,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// Asserts the size of a structure and where its fields are.
macro_rules! layout {
    ($name:ident: $size:literal $(, $field:ident: $offset:literal)*) => {
        const _: () = assert!(size_of::<$name>() == $size);
        $(const _: () = assert!(offset_of!($name, $field) == $offset);)*
    };
}

layout!(ibv_gid: 16);
layout!(ibv_gid_entry: 32, gid_type: 24);
layout!(ibv_device_attr: 232, max_mr_size: 80, max_qp: 108, max_qp_wr: 112, max_mr: 136,
    max_qp_rd_atom: 144, phys_port_cnt: 227);
// 52 bytes on macOS, 56 on Linux; room for more than either writes.
layout!(ibv_port_attr: 100, active_mtu: 8, gid_tbl_len: 12, max_msg_sz: 20, lid: 34,
    link_layer: 46, port_cap_flags2: 48, _room: 52);
layout!(ibv_context_ops: 256, poll_cq: 88, req_notify_cq: 96, post_send: 200, post_recv: 208);
layout!(ibv_context: 280, device: 0, ops: 8, cmd_fd: 264, async_fd: 268);
layout!(ibv_pd: 8);
layout!(ibv_mr: 48, addr: 16, length: 24, lkey: 36, rkey: 40);
layout!(ibv_comp_channel: 16, fd: 8);
layout!(ibv_cq: 32, channel: 8, cqe: 28);
layout!(ibv_qp: 64, send_cq: 24, qp_num: 52, state: 56, qp_type: 60);
layout!(ibv_qp_cap: 20);
layout!(ibv_qp_init_attr: 64, send_cq: 8, cap: 32, qp_type: 52, sq_sig_all: 56);
layout!(ibv_global_route: 24, sgid_index: 20);
layout!(ibv_ah_attr: 32, dlid: 24, is_global: 29);
layout!(ibv_qp_attr: 144, cap: 36, ah_attr: 56, alt_ah_attr: 88, pkey_index: 120, port_num: 129,
    rate_limit: 136);
layout!(ibv_sge: 16);
layout!(ibv_send_wr: 128, opcode: 28, send_flags: 32, wr: 40);
layout!(ibv_send_wr_target: 32);
layout!(ibv_recv_wr: 32);
layout!(ibv_wc: 48, status: 8, opcode: 12, byte_len: 20, qp_num: 28);
