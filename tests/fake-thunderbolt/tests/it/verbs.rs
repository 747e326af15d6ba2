//! The library's functions, found as a program finds them.

use std::{
    ffi::{CString, c_char, c_int, c_uint, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::OnceLock,
};

use pangea_rdma::verbs::sys::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid, ibv_mr, ibv_pd,
    ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

/// Declares a table of functions that the library exports.
macro_rules! verbs {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        #[derive(Debug)]
        pub(crate) struct Verbs {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        #[allow(clippy::too_many_arguments, reason = "as many as the header's functions have")]
        impl Verbs {
            fn load(path: &Path) -> Self {
                let library = open(path);
                Self {
                    $(
                        // SAFETY: a function of the header's, which has this signature there.
                        $name: unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) $(-> $result)?,
                            >(symbol(library, stringify!($name)))
                        },
                    )*
                }
            }

            $(
                pub(crate) fn $name(&self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: tests pass what they have from this library, and use nothing after
                    // they have destroyed it.
                    unsafe { (self.$name)($($argument),*) }
                }
            )*
        }
    };
}

verbs! {
    ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list(list: *mut *mut ibv_device);
    ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    ibv_close_device(context: *mut ibv_context) -> c_int;
    ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
    ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int;
    ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int, pkey: *mut u16) -> c_int;
    ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int;
    ibv_reg_mr(domain: *mut ibv_pd, address: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr;
    ibv_dereg_mr(region: *mut ibv_mr) -> c_int;
    ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    ibv_create_cq(context: *mut ibv_context, cqe: c_int, cookie: *mut c_void,
        channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq;
    ibv_destroy_cq(queue: *mut ibv_cq) -> c_int;
    ibv_get_cq_event(channel: *mut ibv_comp_channel, queue: *mut *mut ibv_cq,
        cookie: *mut *mut c_void) -> c_int;
    ibv_ack_cq_events(queue: *mut ibv_cq, events: c_uint);
    ibv_create_qp(domain: *mut ibv_pd, asked: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_destroy_qp(pair: *mut ibv_qp) -> c_int;
    ibv_modify_qp(pair: *mut ibv_qp, asked: *mut ibv_qp_attr, mask: c_int) -> c_int;
    ibv_query_qp(pair: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int,
        init: *mut ibv_qp_init_attr) -> c_int;
}

/// The library, loaded once.
pub(crate) fn verbs() -> &'static Verbs {
    static VERBS: OnceLock<Verbs> = OnceLock::new();
    VERBS.get_or_init(|| Verbs::load(&pangea_fake_thunderbolt::library_path().unwrap()))
}

fn open(path: &Path) -> *mut c_void {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path; the library's start-up code is that of any Rust library.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "{path:?} can be loaded");
    library
}

fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let text = CString::new(name).unwrap();
    // SAFETY: a library that stays open, and a name.
    let symbol = unsafe { libc::dlsym(library, text.as_ptr()) };
    assert!(!symbol.is_null(), "the library exports {name}");
    symbol
}
