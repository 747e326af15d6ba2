//! The types of the functions that the library exports, by their names.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry,
    ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

pub type ibv_get_device_list = unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
pub type ibv_free_device_list = unsafe extern "C" fn(*mut *mut ibv_device);
pub type ibv_get_device_name = unsafe extern "C" fn(*mut ibv_device) -> *const c_char;
pub type ibv_open_device = unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
pub type ibv_close_device = unsafe extern "C" fn(*mut ibv_context) -> c_int;
pub type ibv_query_device = unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
pub type ibv_query_port = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
pub type ibv_query_gid = unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
/// Called `_ibv_query_gid_ex`; not in every library.
pub type ibv_query_gid_ex =
    unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int;
pub type ibv_alloc_pd = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
pub type ibv_dealloc_pd = unsafe extern "C" fn(*mut ibv_pd) -> c_int;
pub type ibv_reg_mr = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
pub type ibv_dereg_mr = unsafe extern "C" fn(*mut ibv_mr) -> c_int;
pub type ibv_create_comp_channel = unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel;
pub type ibv_destroy_comp_channel = unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int;
pub type ibv_create_cq = unsafe extern "C" fn(
    *mut ibv_context,
    c_int,
    *mut c_void,
    *mut ibv_comp_channel,
    c_int,
) -> *mut ibv_cq;
pub type ibv_destroy_cq = unsafe extern "C" fn(*mut ibv_cq) -> c_int;
pub type ibv_get_cq_event =
    unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
pub type ibv_ack_cq_events = unsafe extern "C" fn(*mut ibv_cq, c_uint);
pub type ibv_create_qp = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
pub type ibv_destroy_qp = unsafe extern "C" fn(*mut ibv_qp) -> c_int;
pub type ibv_modify_qp = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
pub type ibv_query_qp =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
